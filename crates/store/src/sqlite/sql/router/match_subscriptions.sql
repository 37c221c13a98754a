-- role: router_worker
-- index: routing_queue's key, events' key, idx_subscription_event_type
-- What the take holds, oldest first; an event that nobody wants comes with no subscription. CROSS JOIN
-- keeps the order of the walk: the queue leads, whatever the statistics say.
SELECT taken.event_id, s.id
FROM (SELECT event_id FROM routing_queue WHERE event_id >= ?1 ORDER BY event_id LIMIT ?2) AS taken
CROSS JOIN events e ON e.id = taken.event_id
LEFT JOIN subscriptions s INDEXED BY idx_subscription_event_type ON s.event_type = e.event_type
    AND s.active = 1 AND s.verified = 1 AND s.deleted_at IS NULL
