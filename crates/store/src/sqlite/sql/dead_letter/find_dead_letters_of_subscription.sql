-- role: dead_letter_operator
-- Variant of find_dead_letters.sql for one subscription: returns only the dead letters of that subscription.
-- index: idx_dead_subscription (in order), primary key of events
SELECT d.id, d.subscription_id, e.event_type, e.tenant, d.failed_at
FROM dead_letters d INDEXED BY idx_dead_subscription
CROSS JOIN events e ON e.id = d.event_id
WHERE d.subscription_id = ?3 AND d.id > ?1
ORDER BY d.id
LIMIT ?2
