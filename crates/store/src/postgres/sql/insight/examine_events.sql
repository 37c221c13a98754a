-- role: viewer
-- The next 10,000 events behind $1, without their payloads, and whether each still waits for the router.
-- index: events_pkey, routing_queue_pkey.
-- A look for the first id from there on is a descent into the index, however short the statistics say the queue is.
SELECT e.id, e.event_type, e.created_at,
    coalesce((SELECT q.event_id FROM posthaste.routing_queue q WHERE q.event_id >= e.id ORDER BY q.event_id LIMIT 1) = e.id, false)
        AS is_queued
FROM (
    SELECT e.id, e.event_type, e.created_at FROM posthaste.events e WHERE e.id > $1::bigint ORDER BY e.id LIMIT 10000
) e
ORDER BY e.id
