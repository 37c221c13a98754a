-- role: viewer
-- index: subscriptions' key
-- Deleted ones too: history refers to them.
SELECT id, event_type, callback_url, active, verified, max_retry_limit, description, created_at, updated_at, deleted_at
FROM subscriptions WHERE id = ?1
