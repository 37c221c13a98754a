-- role: saga_orchestrator
-- Steps from subscription to subscription that has unfinished sagas, at most $2 of them behind $1, in order, and says
-- of each since when a saga of it is due at $3; nothing if none is, or if it may not be sent to. A Pending saga is due
-- whatever its time.
-- index: idx_saga_subscription_due (its predicate stands here literally), subscriptions_pkey.
-- Each step is one descent into the index, however many sagas a subscription has. The states come out of VALUES,
-- not as constants: to the planner a constant that its statistics have never seen is one row, and any index over the
-- status looks as good as the right one. The looks are scalar subselects, which cannot become a join.
-- The subscription is one of an array of one, and the order is by all of the index: so the planner does not know that
-- the subscription is always the same, and only this index serves the order. With a plain equality it took a scan of
-- the table, or the index over the status, as soon as its statistics had seen a backlog that was nearly all of one
-- subscription: 1.1 s instead of 1.4 ms for 81 subscriptions beside 100,000 sagas of one. The whole range compared as a
-- row finds the right index too, but PostgreSQL 15 ends such a scan by the row's first column alone: it walked over all
-- that the subscription has under way and has waiting for later.
-- Counted: 243 pages for 32 subscriptions that are due, whatever they have under way (251 beside a backlog of 100,000).
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
