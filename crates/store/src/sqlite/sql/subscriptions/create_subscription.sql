-- role: subscription_admin
-- index: none, it adds a row
INSERT INTO subscriptions (event_type, callback_url, max_retry_limit, description, secret, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
RETURNING {subscription}
