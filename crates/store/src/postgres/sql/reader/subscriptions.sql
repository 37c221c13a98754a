-- role: viewer
-- Subscriptions below $1, newest first, of at most $6 that are looked at; deleted ones are not listed.
-- index: subscriptions_pkey. The index over event_type knows no order by id.
-- planner: two limits. Rows keep the order of the scan; nothing outside sorts.
SELECT {subscription}
FROM (
    SELECT s.* FROM (
        SELECT {subscription}
        FROM posthaste.subscriptions s WHERE s.id < $1::bigint ORDER BY s.id DESC LIMIT 10000
    ) s
    LIMIT (SELECT $6::bigint)
) s
WHERE s.deleted_at IS NULL
    AND ($2::text IS NULL OR s.event_type = $2::text)
    AND ($3::boolean IS NULL OR s.verified = $3::boolean)
    AND ($4::boolean IS NULL OR s.active = $4::boolean)
LIMIT $5::bigint
