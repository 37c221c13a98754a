-- role: subscription_admin
-- Returns the secrets of the subscriptions with ids above ?1, unless they are deleted.
-- index: primary key of subscriptions
SELECT id, {secrets}
FROM subscriptions WHERE id > ?1 AND deleted_at IS NULL
ORDER BY id LIMIT ?2
