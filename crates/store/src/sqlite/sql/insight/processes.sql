-- role: viewer
-- Returns the processes seen since ?1, most recent first.
-- index: idx_process_seen, backwards
SELECT p.process_id, p.role, p.version, p.started_at, p.seen_at
FROM processes p WHERE p.seen_at >= ?1 ORDER BY p.seen_at DESC LIMIT 1000
