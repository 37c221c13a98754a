-- role: viewer
-- Returns one dead letter with its payload.
-- index: primary keys of dead_letters and events, uniq_saga_requeued_from
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT r.id FROM webhook_delivery_sagas r INDEXED BY uniq_saga_requeued_from WHERE r.requeued_from = d.id)
        AS requeued_as,
    e.event_type, e.tenant, d.payload_snapshot
FROM dead_letters d
CROSS JOIN events e ON e.id = d.event_id
WHERE d.id = ?1
