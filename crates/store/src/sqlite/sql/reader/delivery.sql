-- role: viewer
-- Returns one saga with the type and the tenant of its event.
-- index: primary keys of webhook_delivery_sagas and events
SELECT g.id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at, e.event_type, e.tenant
FROM webhook_delivery_sagas g
CROSS JOIN events e ON e.id = g.event_id
WHERE g.id = ?1
