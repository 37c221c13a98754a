-- role: subscription_admin
-- Inserts a subscription and returns it.
-- index: none
INSERT INTO subscriptions
    (event_type, callback_url, max_retry_limit, timeout_ms, description, secret_ref, secret, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
RETURNING {subscription}
