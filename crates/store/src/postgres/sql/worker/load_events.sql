-- role: job_worker
-- Returns the events $1 with their payloads.
-- index: events_pkey.
SELECT {event_head}, payload
FROM posthaste.events e
WHERE e.id = ANY ((SELECT $1::bigint[])::bigint[])
