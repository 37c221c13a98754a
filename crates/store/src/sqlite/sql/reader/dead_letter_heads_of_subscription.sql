-- role: viewer
-- Variant of dead_letter_heads.sql for one subscription: returns only the dead letters of that subscription.
-- index: idx_dead_subscription (backwards), primary key of events, uniq_saga_requeued_from
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT r.id FROM webhook_delivery_sagas r INDEXED BY uniq_saga_requeued_from WHERE r.requeued_from = d.id)
        AS requeued_as,
    e.event_type, e.tenant
FROM dead_letters d INDEXED BY idx_dead_subscription
CROSS JOIN events e ON e.id = d.event_id
WHERE d.subscription_id = ?3 AND d.id < ?1 ORDER BY d.id DESC LIMIT ?2
