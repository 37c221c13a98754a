-- role: router_worker
-- Dequeues events and inserts a saga for every matching subscription without a filter, in one statement, so that an
-- event is routed completely or not at all. Returns the number of events, the number of (event, subscription) pairs,
-- the lowest event id and the subscriptions. Subscriptions with a filter are only candidates: they are returned with
-- the number of the kind of event (tenant and type), each filter once, and the events of these kinds. Core decides, and
-- insert_sagas.sql inserts the sagas in the same transaction. If $4 is false, the caller commits with this statement:
-- then a batch with candidates is left in the queue, and has_candidates is true.
-- index: routing_queue_pkey, events_pkey, idx_subscription_pattern, subscriptions_pkey.
-- planner: materialized claim, literal LIMIT, update by ctid, fenced lookup, literal array. Subscriptions are looked up
-- once for each distinct pair of tenant and type, with one index probe for the type, for each of its first 15 ancestors
-- and for *, as pattern::probes of the core. Nothing is joined by tenant and type: for two keys without statistics the
-- planner expects few rows, and compares every event with every subscription.
-- The router may not read sagas, so there is no RETURNING and no conflict target.
-- Measured with 300,000 sagas, in batches of 500, before there were patterns: 28 buffers and 16 µs per row; 23 of the
-- buffers are for the saga and its indexes. A type that is new in its batch costs 13 µs for its probes.
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
), kind AS MATERIALIZED (
    SELECT row_number() OVER () AS number, e.tenant, e.event_type, array_agg(t.event_id) AS events,
        array_agg(CASE WHEN $4::boolean THEN e.attributes::text END) AS attributes
    FROM taken t
    CROSS JOIN LATERAL (
        SELECT e.event_type, coalesce(e.tenant, '') AS tenant, e.attributes
        FROM posthaste.events e WHERE e.id = t.event_id
        OFFSET 0
    ) e
    GROUP BY e.tenant, e.event_type
), target AS MATERIALIZED (
    SELECT k.number, k.events, s.id AS subscription_id, s.filter
    FROM kind k
    CROSS JOIN LATERAL (
        SELECT DISTINCT p.subscription_id
        FROM (
            SELECT k.event_type AS pattern
            UNION ALL
            SELECT '*' WHERE NOT starts_with(k.event_type, 'posthaste.')
            UNION ALL
            SELECT array_to_string(split.segments[1:depth], '.') || '.*'
            FROM (SELECT string_to_array(k.event_type, '.') AS segments) split
            CROSS JOIN unnest('{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}'::integer[]) AS depth
            WHERE depth < cardinality(split.segments)
        ) probe
        CROSS JOIN LATERAL (
            SELECT p.subscription_id FROM posthaste.subscription_patterns p
            WHERE p.current AND p.tenant = k.tenant AND p.pattern = probe.pattern
            OFFSET 0
        ) p
    ) p
    CROSS JOIN LATERAL (
        SELECT s.id, s.filter FROM posthaste.subscriptions s
        WHERE s.id = p.subscription_id AND s.active AND s.verified AND s.deleted_at IS NULL
        OFFSET 0
    ) s
), candidate AS MATERIALIZED (
    SELECT target.number, target.subscription_id, target.filter FROM target WHERE target.filter IS NOT NULL
), routed AS MATERIALIZED (
    SELECT taken.* FROM taken WHERE $4::boolean OR NOT EXISTS (SELECT FROM candidate)
), unqueued AS (
    DELETE FROM posthaste.routing_queue q WHERE q.ctid = ANY (ARRAY(SELECT r.place FROM routed r))
), pair AS MATERIALIZED (
    SELECT unnest(target.events) AS event_id, target.subscription_id
    FROM target WHERE target.filter IS NULL AND EXISTS (SELECT FROM routed)
), made AS (
    INSERT INTO posthaste.webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
    SELECT pair.event_id, pair.subscription_id, $3::timestamptz, $3::timestamptz, $3::timestamptz FROM pair
    ON CONFLICT DO NOTHING
)
SELECT
    (SELECT count(*) FROM routed) AS events,
    (SELECT count(*) FROM pair) AS pairs,
    (SELECT min(routed.event_id) FROM routed) AS lowest,
    ARRAY(SELECT DISTINCT pair.subscription_id FROM pair) AS subscriptions,
    EXISTS (SELECT FROM candidate) AS has_candidates,
    undecided.*,
    accepting.*,
    event_of_candidate.*
FROM (
    SELECT coalesce(array_agg(c.number), '{}') AS candidate_kinds,
        coalesce(array_agg(c.subscription_id), '{}') AS candidate_ids
    FROM candidate c WHERE $4::boolean
) undecided
CROSS JOIN (
    SELECT coalesce(array_agg(f.subscription_id), '{}') AS filter_ids, coalesce(array_agg(f.filter), '{}') AS filters
    FROM (SELECT DISTINCT c.subscription_id, c.filter FROM candidate c WHERE $4::boolean) f
) accepting
CROSS JOIN (
    SELECT coalesce(array_agg(e.event_id), '{}') AS event_ids, coalesce(array_agg(e.number), '{}') AS event_kinds,
        coalesce(array_agg(e.event_type), '{}') AS event_types,
        coalesce(array_agg(e.attributes), '{}') AS event_attributes
    FROM (
        SELECT k.number, k.event_type, unnest(k.events) AS event_id, unnest(k.attributes) AS attributes
        FROM kind k WHERE $4::boolean AND (k.number IN (SELECT c.number FROM candidate c)) IS TRUE
    ) e
) event_of_candidate
