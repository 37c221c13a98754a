-- role: dead_letter_operator
-- index: idx_dead_subscription in its own order, events' key
SELECT d.id, d.subscription_id, e.event_type, d.failed_at
FROM dead_letters d INDEXED BY idx_dead_subscription
CROSS JOIN events e ON e.id = d.event_id
WHERE d.subscription_id = ?3 AND d.id > ?1
ORDER BY d.id
LIMIT ?2
