-- role: viewer
-- Returns a row if the event is still queued for routing.
-- index: primary key of routing_queue
SELECT q.event_id FROM routing_queue q WHERE q.event_id = ?1
