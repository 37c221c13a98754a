-- role: dead_letter_operator
-- Returns the ids of the dead letters after $1 that match the filter, oldest first, examining at most $7.
-- index: dead_letters_pkey; events_pkey for the type and the tenant.
-- planner: two limits. Rows keep the order of the scan; there is no outer sort.
SELECT few.id
FROM (
    SELECT d.* FROM (
        SELECT d.id, d.event_id, d.subscription_id, d.failed_at FROM posthaste.dead_letters d
        WHERE d.id > $1::bigint
        ORDER BY d.id
        LIMIT 10000
    ) d
    LIMIT (SELECT $7::bigint)
) few
WHERE ($2::bigint IS NULL OR few.subscription_id = $2::bigint)
    AND ($3::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = few.event_id) = $3::text)
    AND ($8::text IS NULL OR (SELECT e.tenant FROM posthaste.events e WHERE e.id = few.event_id) = $8::text)
    AND ($4::timestamptz IS NULL OR few.failed_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR few.failed_at < $5::timestamptz)
LIMIT $6::bigint
