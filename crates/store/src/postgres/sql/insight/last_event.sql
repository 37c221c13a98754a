-- role: viewer
-- Returns the largest event id.
-- index: events_pkey, its last entry.
SELECT e.id FROM posthaste.events e ORDER BY e.id DESC LIMIT 1
