-- role: viewer
-- Returns the server version, the schema version, the number of unfinished migrations, the database size and the
-- server's time. The size is NULL without the right to connect; computing it calls stat() for every file.
SELECT current_setting('server_version'),
    coalesce((SELECT max(m.version) FROM posthaste.schema_migrations m WHERE m.finished_at IS NOT NULL), 0),
    (SELECT count(*) FROM posthaste.schema_migrations m WHERE m.finished_at IS NULL),
    CASE WHEN has_database_privilege(current_database(), 'CONNECT') THEN pg_database_size(current_database()) END,
    clock_timestamp()
