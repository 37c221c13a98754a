-- role: the migrating login
-- Creates the table that records migrations. It must exist before the first migration is applied.
CREATE SCHEMA IF NOT EXISTS posthaste;
CREATE TABLE IF NOT EXISTS posthaste.schema_migrations (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz
);
-- Version 0.1 created the table without this column. ALTER TABLE would lock the table even if the column exists, and
-- wait for a dump that reads it.
DO $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute
        WHERE attrelid = 'posthaste.schema_migrations'::regclass AND attname = 'compatible_with' AND NOT attisdropped
    ) THEN
        ALTER TABLE posthaste.schema_migrations ADD COLUMN compatible_with integer;
    END IF;
END
$$;
