-- role: viewer
-- index: events' key, backwards
-- Without the payloads, which may be long.
SELECT id, external_event_id, event_type, correlation_id, traceparent, created_at
FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2
