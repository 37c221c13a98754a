-- role: viewer
-- Returns one event with its payload.
-- index: primary key of events
SELECT {event_head}, payload
FROM events WHERE id = ?1
