-- role: subscription_admin
-- index: subscriptions' key
SELECT id, event_type, callback_url, active, verified, max_retry_limit, description, created_at, updated_at, deleted_at,
    secret, previous_secret, previous_secret_expires_at
FROM subscriptions WHERE id = ?1 AND deleted_at IS NULL
