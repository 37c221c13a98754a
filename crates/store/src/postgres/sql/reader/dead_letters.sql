-- role: viewer
-- Dead letters below $1, newest first, of at most $7 that are looked at.
-- index: dead_letters_pkey, events_pkey for the type, uniq_saga_requeued_from.
-- The look keeps the order it was read in; see deliveries.sql for how it is bounded.
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT g.id FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = d.id) AS requeued_as,
    d.payload_snapshot
FROM (
    SELECT d.* FROM (
        SELECT d.* FROM posthaste.dead_letters d WHERE d.id < $1::bigint ORDER BY d.id DESC LIMIT 10000
    ) d
    LIMIT (SELECT $7::bigint)
) d
WHERE ($2::bigint IS NULL OR d.subscription_id = $2::bigint)
    AND ($3::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = d.event_id) = $3::text)
    AND ($4::timestamptz IS NULL OR d.failed_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR d.failed_at < $5::timestamptz)
LIMIT $6::bigint
