-- role: viewer
-- Returns one event with its payload.
-- index: events_pkey.
SELECT {event_head}, payload
FROM posthaste.events e WHERE e.id = $1::bigint
