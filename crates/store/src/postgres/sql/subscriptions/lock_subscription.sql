-- role: subscription_admin
-- Returns a subscription before a change, for the audit, and locks it until the change commits.
-- index: subscriptions_pkey.
SELECT {subscription}
FROM posthaste.subscriptions s
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
FOR UPDATE
