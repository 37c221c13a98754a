-- role: subscription_admin
-- Marks a subscription as deleted. The row stays, because sagas refer to it.
-- index: primary key of subscriptions
UPDATE subscriptions SET deleted_at = ?2, active = 0, updated_at = ?2
WHERE id = ?1 AND deleted_at IS NULL
