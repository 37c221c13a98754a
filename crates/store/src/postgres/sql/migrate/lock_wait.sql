-- role: the migrating login
-- Returns the lock that a session waits for, with one row per session that blocks it, oldest transaction first. A login
-- without pg_read_all_stats sees neither state nor age of the sessions of other logins.
SELECT w.relation::regclass::text,
       a.pid,
       a.usename::text,
       nullif(a.application_name, ''),
       a.state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint
FROM pg_catalog.pg_locks w
CROSS JOIN LATERAL unnest(pg_catalog.pg_blocking_pids(w.pid)) b (pid)
JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid
WHERE w.pid = $1::integer AND NOT w.granted
ORDER BY a.xact_start NULLS LAST, a.pid
LIMIT $2::bigint
