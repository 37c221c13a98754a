-- role: viewer
-- index: events' key, backwards
SELECT id, external_event_id, event_type, payload, correlation_id, traceparent, created_at
FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2
