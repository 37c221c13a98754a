-- role: subscription_admin
-- index: subscriptions' key
-- What is NULL stays as it is; the two columns that may become NULL have a switch before them. Another
-- URL is an unproven URL.
UPDATE subscriptions
SET event_type = coalesce(?2, event_type),
    verified = CASE WHEN ?3 IS NOT NULL AND ?3 <> callback_url THEN 0 ELSE verified END,
    callback_url = coalesce(?3, callback_url),
    active = coalesce(?4, active),
    max_retry_limit = CASE WHEN ?5 THEN ?6 ELSE max_retry_limit END,
    description = CASE WHEN ?7 THEN ?8 ELSE description END,
    updated_at = ?9
WHERE id = ?1 AND deleted_at IS NULL
RETURNING id, event_type, callback_url, active, verified, max_retry_limit, description, created_at, updated_at, deleted_at
