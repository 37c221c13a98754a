-- role: viewer
-- Returns one event with its payload.
-- index: events_pkey.
SELECT e.id, e.external_event_id, e.event_type, e.payload, e.correlation_id, e.traceparent, e.created_at
FROM posthaste.events e WHERE e.id = $1::bigint
