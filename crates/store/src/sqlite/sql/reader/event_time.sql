-- role: viewer
-- Returns the time of one event.
-- index: primary key of events
SELECT created_at FROM events WHERE id = ?1
