-- role: router_worker
-- Inserts a saga for every pair of match_subscriptions.sql, with the same joins in the same transaction. Joining twice
-- costs less than passing the pairs as parameters: 3.6 µs per saga in batches of 500, compared with 7.6 for one
-- statement per pair.
-- index: primary keys of routing_queue and events, idx_subscription_event_type; uniq_saga_event_subscription for the
-- conflict only
-- The router may not read sagas, so there is no conflict target.
INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
SELECT taken.event_id, s.id, ?3, ?3, ?3
FROM (SELECT event_id FROM routing_queue WHERE event_id >= ?1 ORDER BY event_id LIMIT ?2) AS taken
CROSS JOIN events e ON e.id = taken.event_id
CROSS JOIN subscriptions s INDEXED BY idx_subscription_event_type ON s.event_type = e.event_type
    AND s.active = 1 AND s.verified = 1 AND s.deleted_at IS NULL
WHERE true
ON CONFLICT DO NOTHING
