-- role: viewer
-- index: events' key
SELECT created_at FROM events WHERE id = ?1
