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
