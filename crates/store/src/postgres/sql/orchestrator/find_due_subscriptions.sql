-- role: saga_orchestrator
-- Steps from subscription to subscription that has unfinished sagas, at most $2 of them behind $1, and says of
-- each whether it may be sent to and has a saga that is due at $3.
-- index: idx_saga_subscription_due (its predicate stands here literally), subscriptions_pkey.
-- Each step is one descent into the index, however many sagas a subscription has. The looks are scalar
-- subselects with LIMIT 1, which the planner cannot turn into a join over everything.
WITH RECURSIVE walk (subscription_id, step) AS (
    (
        SELECT g.subscription_id, 1 FROM posthaste.webhook_delivery_sagas g
        WHERE g.status IN ('Pending', 'InProgress', 'PendingRetry') AND g.subscription_id > $1::bigint
        ORDER BY g.subscription_id
        LIMIT 1
    )
    UNION ALL
    SELECT following.subscription_id, walk.step + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT g.subscription_id FROM posthaste.webhook_delivery_sagas g
        WHERE g.status IN ('Pending', 'InProgress', 'PendingRetry') AND g.subscription_id > walk.subscription_id
        ORDER BY g.subscription_id
        LIMIT 1
    ) following
    WHERE walk.step < $2::integer
)
SELECT walk.subscription_id,
    coalesce((
        SELECT s.active AND s.verified AND s.deleted_at IS NULL FROM posthaste.subscriptions s
        WHERE s.id = walk.subscription_id
    ), false)
    AND (
        coalesce((
            SELECT true FROM posthaste.webhook_delivery_sagas g
            WHERE g.subscription_id = walk.subscription_id AND g.status = 'Pending' AND g.next_attempt_at <= $3::timestamptz
            LIMIT 1
        ), false)
        OR coalesce((
            SELECT true FROM posthaste.webhook_delivery_sagas g
            WHERE g.subscription_id = walk.subscription_id AND g.status = 'PendingRetry' AND g.next_attempt_at <= $3::timestamptz
            LIMIT 1
        ), false)
    ) AS due
FROM walk
ORDER BY walk.subscription_id
