-- role: subscription_admin
-- Inserts a subscription and returns it.
INSERT INTO posthaste.subscriptions
    (event_type, callback_url, max_retry_limit, timeout_ms, description, secret_ref, secret, created_at, updated_at)
VALUES ($1::text, $2::text, $3::integer, $4::integer, $5::text, $6::uuid, $7::text, $8::timestamptz, $8::timestamptz)
RETURNING {subscription}
