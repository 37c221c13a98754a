-- role: subscription_admin
-- index: subscriptions' key
-- The row stays, because history refers to it.
UPDATE subscriptions SET deleted_at = ?2, active = 0, updated_at = ?2
WHERE id = ?1 AND deleted_at IS NULL
