-- role: subscription_admin
-- Inserts a subscription and returns it.
INSERT INTO posthaste.subscriptions
    (event_type, callback_url, max_retry_limit, timeout_ms, description, secret, created_at, updated_at)
VALUES ($1::text, $2::text, $3::integer, $4::integer, $5::text, $6::text, $7::timestamptz, $7::timestamptz)
RETURNING {subscription}
