-- role: subscription_admin
-- index: subscriptions' key
SELECT {subscription}, {secrets}
FROM subscriptions WHERE id = ?1 AND deleted_at IS NULL
