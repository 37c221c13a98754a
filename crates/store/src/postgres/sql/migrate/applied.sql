-- role: the migrating login, and any role
-- Which migrations the database has. A handful of rows.
SELECT m.version, m.checksum, m.finished_at IS NOT NULL FROM posthaste.schema_migrations m ORDER BY m.version
