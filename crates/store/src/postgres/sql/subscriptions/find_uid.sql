-- role: subscription_admin
-- Returns the id of the subscription of the tenant $1 (none: an empty text) with the uid $2, unless it is deleted.
-- index: uniq_subscription_uid.
SELECT s.id FROM posthaste.subscriptions s
WHERE coalesce(s.tenant, '') = $1::text AND s.uid = $2::text AND s.deleted_at IS NULL
