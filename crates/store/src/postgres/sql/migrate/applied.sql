-- role: the migrating login, and any role
-- Returns the migrations that were applied to the database, of which there are few.
SELECT m.version, m.checksum, m.finished_at IS NOT NULL FROM posthaste.schema_migrations m ORDER BY m.version
