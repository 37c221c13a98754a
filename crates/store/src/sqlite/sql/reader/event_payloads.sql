-- role: viewer
-- index: events' key
SELECT payload FROM events WHERE id = ?1
