-- role: viewer
-- Variant of dead_letter_heads.sql for one subscription: examines only the dead letters of that subscription.
-- index: idx_dead_subscription, uniq_saga_requeued_from; events_pkey for the type and the tenant.
-- planner: row comparison, two limits. Rows keep the order of the scan; there is no outer sort.
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT g.id FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = d.id) AS requeued_as,
    (SELECT e.tenant FROM posthaste.events e WHERE e.id = d.event_id) AS tenant
FROM (
    SELECT d.* FROM (
        SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at
            FROM posthaste.dead_letters d
        WHERE (d.subscription_id, d.id) >= ($2::bigint, 0) AND (d.subscription_id, d.id) < ($2::bigint, $1::bigint)
        ORDER BY d.subscription_id DESC, d.id DESC LIMIT 10000
    ) d
    LIMIT (SELECT $7::bigint)
) d
WHERE ($3::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = d.event_id) = $3::text)
    AND ($8::text IS NULL OR (SELECT e.tenant FROM posthaste.events e WHERE e.id = d.event_id) = $8::text)
    AND ($4::timestamptz IS NULL OR d.failed_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR d.failed_at < $5::timestamptz)
LIMIT $6::bigint
