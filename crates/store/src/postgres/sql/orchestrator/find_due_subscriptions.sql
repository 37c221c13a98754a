-- role: saga_orchestrator
-- Iterates over the subscriptions with unfinished sagas, at most $2 of them after $1, and returns for each the earliest
-- time of a saga that is due at $3: NULL if none is due or if the subscription is inactive, unverified or deleted. A
-- Pending saga is due regardless of its time.
-- index: idx_saga_subscription_due, subscriptions_pkey.
-- planner: literal predicate, state from VALUES, scalar lookup, array of one.
-- Each step is one descent into the index, however many sagas a subscription has. A row comparison of the whole range
-- uses the index too, but PostgreSQL 15 ends such a scan by the first column alone, so it would read all sagas that the
-- subscription has in flight or waiting.
-- Measured: reads 243 pages for 32 due subscriptions, however many sagas they have in flight (251 with a backlog of
-- 100,000).
WITH RECURSIVE walk (subscription_id, step) AS (
    (
        SELECT g.subscription_id, 1 FROM posthaste.webhook_delivery_sagas g
        WHERE g.status <> 'Completed' AND g.status <> 'DeadLettered' AND g.subscription_id > $1::bigint
        ORDER BY g.subscription_id
        LIMIT 1
    )
    UNION ALL
    SELECT following.subscription_id, walk.step + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT g.subscription_id FROM posthaste.webhook_delivery_sagas g
        WHERE g.status <> 'Completed' AND g.status <> 'DeadLettered' AND g.subscription_id > walk.subscription_id
        ORDER BY g.subscription_id
        LIMIT 1
    ) following
    WHERE walk.step < $2::integer
)
SELECT walk.subscription_id,
    CASE WHEN (
        SELECT s.active AND s.verified AND s.deleted_at IS NULL FROM posthaste.subscriptions s
        WHERE s.id = walk.subscription_id
    ) THEN (
        SELECT min(g.next_attempt_at)
        FROM (VALUES ('Pending'::posthaste.saga_status, 'infinity'::timestamptz), ('PendingRetry', $3::timestamptz))
            AS waiting (status, until)
        CROSS JOIN LATERAL (
            SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
            WHERE g.subscription_id = ANY (ARRAY[walk.subscription_id]) AND g.status = waiting.status
                AND g.next_attempt_at <= waiting.until
                AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
            ORDER BY g.subscription_id, g.status, g.next_attempt_at
            LIMIT 1
        ) g
    ) END AS due_since
FROM walk
