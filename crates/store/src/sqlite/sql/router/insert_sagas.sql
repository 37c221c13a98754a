-- role: router_worker
-- Inserts a saga for each event ?1 and each subscription ?2. Events with the same subscriptions share a statement: with
-- arrays, a saga costs as much as with a join of the tables, and half of what one statement per pair costs.
-- index: uniq_saga_event_subscription for the conflict only
-- The router may not read sagas, so there is no conflict target.
INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
SELECT event.value, subscription.value, ?3, ?3, ?3
FROM rarray(?1) AS event CROSS JOIN rarray(?2) AS subscription
WHERE true
ON CONFLICT DO NOTHING
