-- role: viewer
-- Subscriptions below $1, newest first, of at most 10,000 that are looked at; deleted ones are not listed.
-- index: subscriptions_pkey. The index over event_type knows no order by id.
SELECT s.id, s.event_type, s.callback_url, s.active, s.verified, s.max_retry_limit, s.description, s.created_at, s.updated_at,
    s.deleted_at
FROM (
    SELECT s.id, s.event_type, s.callback_url, s.active, s.verified, s.max_retry_limit, s.description, s.created_at,
        s.updated_at, s.deleted_at
    FROM posthaste.subscriptions s WHERE s.id < $1::bigint ORDER BY s.id DESC LIMIT 10000
) s
WHERE s.deleted_at IS NULL
    AND ($2::text IS NULL OR s.event_type = $2::text)
    AND ($3::boolean IS NULL OR s.verified = $3::boolean)
    AND ($4::boolean IS NULL OR s.active = $4::boolean)
ORDER BY s.id DESC
LIMIT $5::bigint
