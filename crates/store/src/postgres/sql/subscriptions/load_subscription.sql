-- role: subscription_admin
-- Returns a subscription with its secrets, unless it is deleted.
-- index: subscriptions_pkey.
SELECT {subscription}, {secrets}
FROM posthaste.subscriptions s
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
