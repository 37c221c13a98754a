-- role: subscription_admin
-- A NULL leaves a column as it is; for the two that may be NULL themselves, a flag says whether they change.
-- Another URL was never challenged, so it takes the verification away.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET event_type = coalesce($2::text, s.event_type),
    callback_url = coalesce($3::text, s.callback_url),
    verified = s.verified AND coalesce($3::text, s.callback_url) = s.callback_url,
    active = coalesce($4::boolean, s.active),
    max_retry_limit = CASE WHEN $5::boolean THEN $6::integer ELSE s.max_retry_limit END,
    description = CASE WHEN $7::boolean THEN $8::text ELSE s.description END,
    updated_at = $9::timestamptz
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
RETURNING s.id, s.event_type, s.callback_url, s.active, s.verified, s.max_retry_limit, s.description, s.created_at, s.updated_at,
    s.deleted_at
