-- role: viewer
-- Returns the oldest prepared transaction of this database.
SELECT p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::double precision
FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database() ORDER BY p.prepared LIMIT 1
