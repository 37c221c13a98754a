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
    AND ($2::text IS NULL OR s.event_type = $2::text)
    AND ($3::boolean IS NULL OR s.verified = $3::boolean)
    AND ($4::boolean IS NULL OR s.active = $4::boolean)
LIMIT $5::bigint
