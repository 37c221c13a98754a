-- role: viewer
-- Returns the latest dead letter of each subscription in ?1 that has one.
-- index: idx_dead_subscription, its last entry per subscription
SELECT d.subscription_id, d.final_error_code, d.failed_at
FROM rarray(?1)
CROSS JOIN dead_letters d ON d.id = (
    SELECT l.id FROM dead_letters l INDEXED BY idx_dead_subscription
    WHERE l.subscription_id = rarray.value ORDER BY l.id DESC LIMIT 1)
