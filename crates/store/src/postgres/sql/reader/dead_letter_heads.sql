-- role: viewer
-- Returns the dead letters below $1 that match the filter, newest first, examining at most $7. Payloads are omitted,
-- since they may be large.
-- index: dead_letters_pkey, uniq_saga_requeued_from; events_pkey for the type and the tenant.
-- planner: two limits. Rows keep the order of the scan; there is no outer sort.
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT g.id FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = d.id) AS requeued_as,
    (SELECT e.tenant FROM posthaste.events e WHERE e.id = d.event_id) AS tenant
FROM (
    SELECT d.* FROM (
        SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at
            FROM posthaste.dead_letters d WHERE d.id < $1::bigint ORDER BY d.id DESC LIMIT 10000
    ) d
    LIMIT (SELECT $7::bigint)
) d
WHERE ($2::bigint IS NULL OR d.subscription_id = $2::bigint)
    AND ($3::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = d.event_id) = $3::text)
    AND ($8::text IS NULL OR (SELECT e.tenant FROM posthaste.events e WHERE e.id = d.event_id) = $8::text)
    AND ($4::timestamptz IS NULL OR d.failed_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR d.failed_at < $5::timestamptz)
LIMIT $6::bigint
