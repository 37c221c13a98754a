-- role: viewer
-- Returns one saga with the type and the tenant of its event.
-- index: webhook_delivery_sagas_pkey, events_pkey.
SELECT g.id, g.event_id, g.subscription_id, g.status::text, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at,
    coalesce((SELECT e.event_type FROM posthaste.events e WHERE e.id = g.event_id), '') AS event_type,
    (SELECT e.tenant FROM posthaste.events e WHERE e.id = g.event_id) AS tenant
FROM posthaste.webhook_delivery_sagas g WHERE g.id = $1::bigint
