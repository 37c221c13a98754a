-- role: dead_letter_operator
-- Variant of find_dead_letters.sql for one subscription: examines only the dead letters of that subscription.
-- index: idx_dead_subscription; events_pkey for the type and the tenant.
-- planner: row comparison, two limits. Rows keep the order of the scan; there is no outer sort.
SELECT few.id
FROM (
    SELECT d.* FROM (
        SELECT d.id, d.event_id, d.failed_at FROM posthaste.dead_letters d
        WHERE (d.subscription_id, d.id) > ($2::bigint, $1::bigint)
            AND (d.subscription_id, d.id) <= ($2::bigint, 9223372036854775807)
        ORDER BY d.subscription_id, d.id
        LIMIT 10000
    ) d
    LIMIT (SELECT $7::bigint)
) few
WHERE ($3::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = few.event_id) = $3::text)
    AND ($8::text IS NULL OR (SELECT e.tenant FROM posthaste.events e WHERE e.id = few.event_id) = $8::text)
    AND ($4::timestamptz IS NULL OR few.failed_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR few.failed_at < $5::timestamptz)
LIMIT $6::bigint
