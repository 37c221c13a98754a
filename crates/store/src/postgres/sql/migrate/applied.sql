-- role: the migrating login, and any role
-- Returns the migrations that were applied to the database, of which there are few. The last column does not exist
-- before the first migration by version 0.2, so it is read by name from the row.
SELECT m.version, m.checksum, m.finished_at IS NOT NULL, (to_jsonb(m) ->> 'compatible_with')::integer
FROM posthaste.schema_migrations m
ORDER BY m.version
