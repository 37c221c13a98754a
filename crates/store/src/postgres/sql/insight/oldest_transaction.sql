-- role: viewer
-- Whether this role sees the transactions of others, and the oldest open one of this database. The server's own
-- clock counts here: it is the one that wrote the times.
SELECT rights.sees_all, a.who, a.age_s
FROM (SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all) rights
LEFT JOIN LATERAL (
    SELECT a.application_name AS who, extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS age_s
    FROM pg_catalog.pg_stat_activity a
    WHERE a.datname = current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
        AND a.backend_type = 'client backend'
    ORDER BY a.xact_start LIMIT 1
) a ON true
