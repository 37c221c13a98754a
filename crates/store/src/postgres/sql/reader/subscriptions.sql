-- role: viewer
-- Returns the subscriptions below $1 that match the filter and are not deleted, newest first, examining at most $6.
-- index: subscriptions_pkey. The index on event_type is not in id order.
-- planner: two limits. Rows keep the order of the scan; there is no outer sort.
SELECT {subscription}
FROM (
    SELECT s.* FROM (
        SELECT {subscription}
        FROM posthaste.subscriptions s WHERE s.id < $1::bigint ORDER BY s.id DESC LIMIT 10000
    ) s
    LIMIT (SELECT $6::bigint)
) s
WHERE s.deleted_at IS NULL
    AND ($2::text[] IS NULL OR s.event_types && $2::text[])
    AND ($3::boolean IS NULL OR s.verified = $3::boolean)
    AND ($4::boolean IS NULL OR s.active = $4::boolean)
    AND ($7::text IS NULL OR s.tenant = $7::text)
    AND ($8::text IS NULL OR s.uid = $8::text)
    AND ($9::text IS NULL OR s.name = $9::text)
    AND ($10::text IS NULL OR s.metadata::jsonb @> $10::text::jsonb)
LIMIT $5::bigint
