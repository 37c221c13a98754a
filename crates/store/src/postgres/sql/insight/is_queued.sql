-- role: viewer
-- Returns a row if the event is still queued for routing.
-- index: routing_queue_pkey.
SELECT q.event_id FROM posthaste.routing_queue q WHERE q.event_id = $1::bigint
