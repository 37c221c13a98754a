-- role: router_worker
-- Returns the queued events from ?1, oldest first, each with its matching subscriptions; an event without one is
-- returned with NULL.
-- index: primary keys of routing_queue and events, idx_subscription_event_type. CROSS JOIN keeps the queue as the
-- outermost loop, regardless of the statistics.
SELECT taken.event_id, s.id
FROM (SELECT event_id FROM routing_queue WHERE event_id >= ?1 ORDER BY event_id LIMIT ?2) AS taken
CROSS JOIN events e ON e.id = taken.event_id
LEFT JOIN subscriptions s INDEXED BY idx_subscription_event_type ON s.event_type = e.event_type
    AND s.active = 1 AND s.verified = 1 AND s.deleted_at IS NULL
