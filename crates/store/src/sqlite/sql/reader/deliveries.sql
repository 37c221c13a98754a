-- role: viewer
-- Returns the next ?2 sagas below ?1, newest first. The caller applies the filter, because it must know the last row
-- examined.
-- index: primary keys of webhook_delivery_sagas (backwards) and events
SELECT g.id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at, e.event_type, e.tenant
FROM webhook_delivery_sagas g
CROSS JOIN events e ON e.id = g.event_id
WHERE g.id < ?1 ORDER BY g.id DESC LIMIT ?2
