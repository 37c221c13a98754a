-- role: subscription_admin
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET previous_secret = s.secret, previous_secret_expires_at = $3::timestamptz, secret = $2::text, updated_at = $4::timestamptz
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
RETURNING s.id, s.event_type, s.callback_url, s.active, s.verified, s.max_retry_limit, s.description, s.created_at, s.updated_at,
    s.deleted_at
