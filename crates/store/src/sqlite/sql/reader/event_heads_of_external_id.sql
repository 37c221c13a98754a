-- role: viewer
-- Returns the event with the external id ?3, without its payload, if its id is below ?1.
-- index: uniq_event_external_id
SELECT {event_head}
FROM events INDEXED BY uniq_event_external_id
WHERE external_event_id = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
