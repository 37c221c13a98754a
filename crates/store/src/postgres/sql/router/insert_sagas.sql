-- role: router_worker
-- Inserts a saga for each pair of an event $1 and a subscription $2 that core has matched by a filter. Runs in the
-- transaction of route_events.sql, which dequeued the events.
-- The router may not read sagas, so there is no RETURNING and no conflict target.
INSERT INTO posthaste.webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
SELECT pair.event_id, pair.subscription_id, $3::timestamptz, $3::timestamptz, $3::timestamptz
FROM unnest((SELECT $1::bigint[]), (SELECT $2::bigint[])) AS pair (event_id, subscription_id)
ON CONFLICT DO NOTHING
