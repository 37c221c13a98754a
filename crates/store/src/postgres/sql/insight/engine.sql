-- role: viewer
-- The server, the schema and the size, which takes a look at the length of every file.
SELECT current_setting('server_version'),
    coalesce((SELECT max(m.version) FROM posthaste.schema_migrations m WHERE m.finished_at IS NOT NULL), 0),
    (SELECT count(*) FROM posthaste.schema_migrations m WHERE m.finished_at IS NULL),
    CASE WHEN has_database_privilege(current_database(), 'CONNECT') THEN pg_database_size(current_database()) END,
    clock_timestamp()
