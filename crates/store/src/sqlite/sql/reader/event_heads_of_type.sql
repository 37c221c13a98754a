-- role: viewer
-- index: idx_event_type, backwards: an index ends with the id, so no sort
SELECT {event_head}
FROM events INDEXED BY idx_event_type
WHERE event_type = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
