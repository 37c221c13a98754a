-- role: subscription_admin
-- As it is before a change, for the audit. The lock keeps it so until the change commits.
-- index: subscriptions_pkey.
SELECT s.id, s.event_type, s.callback_url, s.active, s.verified, s.max_retry_limit, s.description, s.created_at, s.updated_at,
    s.deleted_at
FROM posthaste.subscriptions s
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
FOR UPDATE
