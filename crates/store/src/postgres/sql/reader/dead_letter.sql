-- role: viewer
-- Returns one dead letter with its payload.
-- index: dead_letters_pkey, uniq_saga_requeued_from; events_pkey for the tenant.
SELECT d.id, d.saga_id, d.event_id, d.subscription_id, d.final_error_code, d.failed_at,
    (SELECT g.id FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = d.id) AS requeued_as,
    (SELECT e.tenant FROM posthaste.events e WHERE e.id = d.event_id) AS tenant,
    d.payload_snapshot
FROM posthaste.dead_letters d WHERE d.id = $1::bigint
