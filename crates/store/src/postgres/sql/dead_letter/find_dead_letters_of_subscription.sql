-- role: dead_letter_operator
-- The same for one subscription: only its letters are looked at.
-- index: idx_dead_subscription, events_pkey for the type.
SELECT few.id
FROM (
    SELECT d.id, d.event_id, d.failed_at FROM posthaste.dead_letters d
    WHERE d.subscription_id = $2::bigint AND d.id > $1::bigint
    ORDER BY d.id
    LIMIT 10000
) few
WHERE ($3::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = few.event_id) = $3::text)
    AND ($4::timestamptz IS NULL OR few.failed_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR few.failed_at < $5::timestamptz)
ORDER BY few.id
LIMIT $6::bigint
