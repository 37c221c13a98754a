-- role: viewer
-- Variant of examine_events.sql for the newest 10,000 events, newest first.
-- index: events_pkey backwards, routing_queue_pkey.
-- The queue is probed for the first id from e.id on: one index descent, however small the statistics say the queue is.
SELECT e.id, e.event_type, e.tenant, e.attributes, e.created_at,
    coalesce((SELECT q.event_id FROM posthaste.routing_queue q WHERE q.event_id >= e.id ORDER BY q.event_id LIMIT 1) =
        e.id, false)
        AS is_queued
FROM (
    SELECT e.id, e.event_type, e.tenant, e.attributes, e.created_at FROM posthaste.events e
    ORDER BY e.id DESC LIMIT 10000
) e
ORDER BY e.id DESC
