-- role: subscription_admin
-- Marks a subscription as deleted. The row stays, because sagas refer to it.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET deleted_at = $2::timestamptz, active = false, updated_at = $2::timestamptz
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
RETURNING s.id
