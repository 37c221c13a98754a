-- role: viewer
-- Variant of deliveries.sql for one status.
-- index: idx_saga_status, backwards, without a sort: index entries end with the rowid; primary key of events
SELECT g.id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at, e.event_type, e.tenant
FROM webhook_delivery_sagas g INDEXED BY idx_saga_status
CROSS JOIN events e ON e.id = g.event_id
WHERE g.status = ?3 AND g.id < ?1 ORDER BY g.id DESC LIMIT ?2
