-- role: viewer
-- index: idx_event_created_at, backwards: an index ends with the id, so no sort
-- From the instant ?4 back to ?3; of the last instant only what is below ?1, where the page before ended. The payload
-- of another type than ?5, which whoever reads leaves out, is not read.
SELECT id, external_event_id, event_type, CASE WHEN ?5 IS NULL OR event_type = ?5 THEN payload END,
    correlation_id, traceparent, created_at
FROM events INDEXED BY idx_event_created_at
WHERE created_at >= ?3 AND created_at <= ?4 AND (created_at < ?4 OR id < ?1)
ORDER BY created_at DESC, id DESC LIMIT ?2
