-- role: subscription_admin
-- Returns the id of the subscription of the tenant ?1 (none: an empty text) with the uid ?2, unless it is deleted.
-- index: uniq_subscription_uid
SELECT id FROM subscriptions INDEXED BY uniq_subscription_uid
WHERE coalesce(tenant, '') = ?1 AND uid = ?2 AND deleted_at IS NULL
