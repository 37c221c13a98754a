-- role: viewer
-- index: events_pkey.
SELECT e.created_at FROM posthaste.events e WHERE e.id = $1::bigint
