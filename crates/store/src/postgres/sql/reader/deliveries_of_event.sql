-- role: viewer
-- Variant of deliveries.sql for one event: examines only the sagas of that event.
-- index: idx_saga_event. An event has one saga per matching subscription; they are sorted by id.
-- planner: two limits. Rows keep the order of the scan; there is no outer sort.
SELECT g.id, g.event_id, g.subscription_id, g.status::text, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at,
    coalesce((SELECT e.event_type FROM posthaste.events e WHERE e.id = g.event_id), '') AS event_type,
    (SELECT e.tenant FROM posthaste.events e WHERE e.id = g.event_id) AS tenant
FROM (
    SELECT g.* FROM (
        SELECT g.* FROM posthaste.webhook_delivery_sagas g
            WHERE g.event_id = $5::bigint AND g.id < $1::bigint ORDER BY g.id DESC LIMIT 10000
    ) g
    LIMIT (SELECT $10::bigint)
) g
WHERE ($2::text IS NULL OR g.status::text = $2::text)
    AND ($3::bigint IS NULL OR g.subscription_id = $3::bigint)
    AND ($4::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = g.event_id) = $4::text)
    AND ($11::text IS NULL OR (SELECT e.tenant FROM posthaste.events e WHERE e.id = g.event_id) = $11::text)
    AND ($6::text IS NULL OR g.final_error_code = $6::text)
    AND ($7::timestamptz IS NULL OR g.created_at >= $7::timestamptz)
    AND ($8::timestamptz IS NULL OR g.created_at < $8::timestamptz)
LIMIT $9::bigint
