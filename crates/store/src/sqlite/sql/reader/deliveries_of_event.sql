-- role: viewer
-- Variant of deliveries.sql for one event. An event has one saga per matching subscription; they are sorted by id.
-- index: idx_saga_event
SELECT g.id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at, e.event_type, e.tenant
FROM webhook_delivery_sagas g INDEXED BY idx_saga_event
CROSS JOIN events e ON e.id = g.event_id
WHERE g.event_id = ?3 AND g.id < ?1 ORDER BY g.id DESC LIMIT ?2
