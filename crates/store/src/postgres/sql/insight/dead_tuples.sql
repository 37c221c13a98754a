-- role: viewer
-- Returns the five tables with the most dead rows, which VACUUM has not removed yet.
SELECT t.relname::text, t.n_live_tup, t.n_dead_tup
FROM pg_catalog.pg_stat_user_tables t WHERE t.schemaname = 'posthaste' ORDER BY t.n_dead_tup DESC LIMIT 5
