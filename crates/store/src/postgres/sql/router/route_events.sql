-- role: router_worker
-- Dequeues events and inserts a saga for every matching subscription, in one statement, so that an event is routed
-- completely or not at all. Returns the number of events, the number of (event, subscription) pairs, the lowest event
-- id and the subscriptions.
-- index: routing_queue_pkey, events_pkey, idx_subscription_event_type.
-- planner: materialized claim, literal LIMIT, update by ctid, fenced lookup. Subscriptions are looked up once for each
-- distinct type.
-- The router may not read sagas, so there is no RETURNING and no conflict target.
-- Measured with 300,000 sagas, in batches of 500: 28 buffers and 16 µs per row; 23 of the buffers are for the saga and
-- its indexes.
WITH taken AS MATERIALIZED (
    SELECT few.place, few.event_id
    FROM (
        SELECT q.ctid AS place, q.event_id FROM posthaste.routing_queue q
        WHERE q.event_id >= $1::bigint
        ORDER BY q.event_id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) few
    LIMIT $2::integer
), unqueued AS (
    DELETE FROM posthaste.routing_queue q WHERE q.ctid = ANY (ARRAY(SELECT t.place FROM taken t))
), event AS MATERIALIZED (
    SELECT t.event_id, e.event_type
    FROM taken t
    CROSS JOIN LATERAL (SELECT e.event_type FROM posthaste.events e WHERE e.id = t.event_id OFFSET 0) e
), target AS MATERIALIZED (
    SELECT k.event_type, s.id AS subscription_id
    FROM (SELECT DISTINCT event.event_type FROM event) k
    CROSS JOIN LATERAL (
        SELECT s.id FROM posthaste.subscriptions s
        WHERE s.event_type = k.event_type AND s.active AND s.verified AND s.deleted_at IS NULL
        OFFSET 0
    ) s
), pair AS MATERIALIZED (
    SELECT event.event_id, target.subscription_id FROM event JOIN target USING (event_type)
), made AS (
    INSERT INTO posthaste.webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
    SELECT pair.event_id, pair.subscription_id, $3::timestamptz, $3::timestamptz, $3::timestamptz FROM pair
    ON CONFLICT DO NOTHING
)
SELECT
    count(*) AS events,
    (SELECT count(*) FROM pair) AS pairs,
    min(taken.event_id) AS lowest,
    ARRAY(SELECT DISTINCT pair.subscription_id FROM pair) AS subscriptions
FROM taken
