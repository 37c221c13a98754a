-- role: subscription_admin
-- Marks a subscription as verified if its URL and secret are still those of the challenge.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET verified = true, updated_at = $4::timestamptz
WHERE s.id = $1::bigint AND s.callback_url = $2::text AND s.secret = $3::text AND s.deleted_at IS NULL
RETURNING s.id
