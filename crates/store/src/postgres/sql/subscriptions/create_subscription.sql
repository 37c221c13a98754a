-- role: subscription_admin
-- Inserts a subscription and returns it.
INSERT INTO posthaste.subscriptions
    (event_type, callback_url, max_retry_limit, description, secret, created_at, updated_at)
VALUES ($1::text, $2::text, $3::integer, $4::text, $5::text, $6::timestamptz, $6::timestamptz)
RETURNING {subscription}
