-- role: viewer
-- Returns all changes of every subscription that has ever had one of the event types ?1, at most ?2 rows.
-- index: idx_subscription_change_type, idx_subscription_change
SELECT c.subscription_id, c.event_type, c.active, c.verified, c.deleted_at IS NOT NULL AS is_deleted, c.changed_at
FROM (
    SELECT DISTINCT t.subscription_id
    FROM rarray(?1) asked
    CROSS JOIN subscription_changes t INDEXED BY idx_subscription_change_type ON t.event_type = asked.value
) few
CROSS JOIN subscription_changes c INDEXED BY idx_subscription_change ON c.subscription_id = few.subscription_id
ORDER BY few.subscription_id, c.id
LIMIT ?2
