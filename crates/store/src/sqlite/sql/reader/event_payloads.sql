-- role: viewer
-- Returns the payload of an event.
-- index: primary key of events
SELECT payload FROM events WHERE id = ?1
