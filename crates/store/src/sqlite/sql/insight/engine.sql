-- role: viewer
-- Returns the SQLite version, the schema version and the number of unfinished migrations.
-- index: none; schema_migrations has one row per migration
SELECT sqlite_version(), coalesce(max(m.version) FILTER (WHERE m.finished_at IS NOT NULL), 0),
    count(*) FILTER (WHERE m.finished_at IS NULL)
FROM schema_migrations m
