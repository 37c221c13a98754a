-- role: subscription_admin
-- Replaces the secret; the old secret becomes the previous secret until $3.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET previous_secret = s.secret, previous_secret_expires_at = $3::timestamptz, secret = $2::text,
    updated_at = $4::timestamptz
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
RETURNING {subscription}
