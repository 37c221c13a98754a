-- role: viewer
-- index: events' key, backwards
-- With the beginning of the payloads, which may be long.
SELECT id, external_event_id, event_type, substr(payload, 1, 60), created_at
FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2
