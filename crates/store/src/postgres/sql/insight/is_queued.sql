-- role: viewer
-- index: routing_queue_pkey.
SELECT q.event_id FROM posthaste.routing_queue q WHERE q.event_id = $1::bigint
