-- role: router_worker
-- index: uniq_saga_event_subscription, for the conflict alone.
-- The conflict has no target, because the router cannot look at sagas.
INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
VALUES (?1, ?2, ?3, ?3, ?3)
ON CONFLICT DO NOTHING
