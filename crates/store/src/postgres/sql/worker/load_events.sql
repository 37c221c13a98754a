-- role: job_worker
-- Returns the events $1 with their payloads.
-- index: events_pkey.
SELECT e.id, e.external_event_id, e.event_type, e.payload, e.correlation_id, e.traceparent, e.created_at
FROM posthaste.events e
WHERE e.id = ANY ((SELECT $1::bigint[])::bigint[])
