-- role: router_worker
-- Returns the queued events from ?1, oldest first, with what matching depends on.
-- index: primary keys of routing_queue and events. CROSS JOIN keeps the queue as the outer loop, regardless of the
-- statistics.
SELECT taken.event_id, e.event_type, e.tenant, e.attributes
FROM (SELECT event_id FROM routing_queue WHERE event_id >= ?1 ORDER BY event_id LIMIT ?2) AS taken
CROSS JOIN events e ON e.id = taken.event_id
