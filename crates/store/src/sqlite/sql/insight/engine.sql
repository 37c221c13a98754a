-- role: viewer
-- index: schema_migrations, which has a row for each migration
SELECT sqlite_version(), coalesce(max(m.version) FILTER (WHERE m.finished_at IS NOT NULL), 0),
    count(*) FILTER (WHERE m.finished_at IS NULL)
FROM schema_migrations m
