-- role: viewer
-- Returns the next ?2 dead letters below ?1, newest first, without payloads, which may be large. The caller applies the
-- filter, because it must know the last row examined.
-- index: primary keys of dead_letters (backwards) and events, uniq_saga_requeued_from
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT r.id FROM webhook_delivery_sagas r INDEXED BY uniq_saga_requeued_from WHERE r.requeued_from = d.id)
        AS requeued_as,
    e.event_type, e.tenant
FROM dead_letters d
CROSS JOIN events e ON e.id = d.event_id
WHERE d.id < ?1 ORDER BY d.id DESC LIMIT ?2
