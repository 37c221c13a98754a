-- role: subscription_admin
-- Marks a subscription as verified if its URL and secret are still those that were verified.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET verified = true, verification_method = $4::text, verified_by = $5::text, allowed_per_minute = $6::integer,
    verified_at = $7::timestamptz, updated_at = $7::timestamptz, revision = s.revision + 1
WHERE s.id = $1::bigint AND s.callback_url = $2::text AND s.secret = $3::text AND s.deleted_at IS NULL
RETURNING s.id
