-- role: viewer
-- index: events' key, backwards
-- Without the payloads, which may be long.
SELECT {event_head}
FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2
