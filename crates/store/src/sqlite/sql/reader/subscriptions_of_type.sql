-- role: viewer
-- index: idx_subscription_event_type, backwards: an index ends with the id, so no sort
SELECT id, event_type, callback_url, active, verified, max_retry_limit, description, created_at, updated_at, deleted_at
FROM subscriptions INDEXED BY idx_subscription_event_type
WHERE event_type = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
