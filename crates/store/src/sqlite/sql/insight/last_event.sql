-- role: viewer
-- Returns the largest event id.
-- index: primary key of events, its last entry
SELECT e.id FROM events e WHERE e.id > 0 ORDER BY e.id DESC LIMIT 1
