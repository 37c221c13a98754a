-- role: the migrating login
-- Where migrations are counted; it must be there before the first one is.
CREATE SCHEMA IF NOT EXISTS posthaste;
CREATE TABLE IF NOT EXISTS posthaste.schema_migrations (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz
);
