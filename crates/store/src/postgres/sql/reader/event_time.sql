-- role: viewer
-- Returns the time of one event.
-- index: events_pkey.
SELECT e.created_at FROM posthaste.events e WHERE e.id = $1::bigint
