-- role: viewer
-- index: dead_letters' key, backwards; events' key, uniq_saga_requeued_from
-- Without the payloads, which may be long. What does not match is left out by whoever reads the rows, so that a page knows what it looked at.
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT r.id FROM webhook_delivery_sagas r INDEXED BY uniq_saga_requeued_from WHERE r.requeued_from = d.id)
        AS requeued_as,
    e.event_type
FROM dead_letters d
CROSS JOIN events e ON e.id = d.event_id
WHERE d.id < ?1 ORDER BY d.id DESC LIMIT ?2
