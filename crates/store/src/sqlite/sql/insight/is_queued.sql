-- role: viewer
-- index: routing_queue's key
SELECT q.event_id FROM routing_queue q WHERE q.event_id = ?1
