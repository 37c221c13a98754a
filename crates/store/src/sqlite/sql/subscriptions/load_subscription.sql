-- role: subscription_admin
-- Returns a subscription with its secrets, unless it is deleted.
-- index: primary key of subscriptions
SELECT {subscription}, {secrets}
FROM subscriptions WHERE id = ?1 AND deleted_at IS NULL
