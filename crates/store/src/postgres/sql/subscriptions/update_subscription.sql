-- role: subscription_admin
-- Writes the whole row, because core has applied the change to the row that this transaction locked.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET event_type = $2::text, callback_url = $3::text, active = $4::boolean, verified = $5::boolean,
    max_retry_limit = $6::integer, timeout_ms = $7::integer, description = $8::text, updated_at = $9::timestamptz
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
