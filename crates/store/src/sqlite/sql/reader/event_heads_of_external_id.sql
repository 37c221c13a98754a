-- role: viewer
-- index: uniq_event_external_id; there is at most one
SELECT {event_head}
FROM events INDEXED BY uniq_event_external_id
WHERE external_event_id = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
