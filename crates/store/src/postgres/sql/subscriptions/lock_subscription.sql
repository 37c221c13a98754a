-- role: subscription_admin
-- As it is before a change, for the audit. The lock keeps it so until the change commits.
-- index: subscriptions_pkey.
SELECT {subscription}
FROM posthaste.subscriptions s
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
FOR UPDATE
