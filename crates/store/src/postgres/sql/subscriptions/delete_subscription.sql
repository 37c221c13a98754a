-- role: subscription_admin
-- The row stays: history keeps its references.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET deleted_at = $2::timestamptz, active = false, updated_at = $2::timestamptz
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
RETURNING s.id
