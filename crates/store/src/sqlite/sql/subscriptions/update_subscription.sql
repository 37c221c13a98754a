-- role: subscription_admin
-- index: primary key of subscriptions
-- Writes the whole row, because core has applied the change to the row that this transaction read.
UPDATE subscriptions
SET event_type = ?2, callback_url = ?3, active = ?4, verified = ?5, max_retry_limit = ?6, timeout_ms = ?7,
    description = ?8, updated_at = ?9
WHERE id = ?1 AND deleted_at IS NULL
