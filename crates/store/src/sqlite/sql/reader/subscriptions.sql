-- role: viewer
-- index: subscriptions' key, backwards
SELECT id, event_type, callback_url, active, verified, max_retry_limit, description, created_at, updated_at, deleted_at
FROM subscriptions WHERE id < ?1 ORDER BY id DESC LIMIT ?2
