-- role: viewer
-- Returns whether this role may see the transactions of other roles, and the oldest open transaction of this database.
-- The age is computed with the server's clock, which also set xact_start.
SELECT rights.sees_all, a.who, a.age_s
FROM (SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all) rights
LEFT JOIN LATERAL (
    SELECT a.application_name AS who, extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS age_s
    FROM pg_catalog.pg_stat_activity a
    WHERE a.datname = current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
        AND a.backend_type = 'client backend'
    ORDER BY a.xact_start LIMIT 1
) a ON true
