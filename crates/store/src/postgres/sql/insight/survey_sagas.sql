-- role: viewer
-- Returns the number of sagas that are due at $1 and may be sent, the time at which the oldest of them became due, and
-- the number of held sagas. Each is counted up to 100,000, over at most 10,000 subscriptions with unfinished sagas.
-- index: idx_saga_subscription_due, one descent per subscription; subscriptions_pkey. find_due_subscriptions.sql
-- explains the ranges. The LIMIT prevents the planner from turning a lookup into a join.
WITH RECURSIVE walk (subscription_id, step) AS (
    (
        SELECT g.subscription_id, 1 FROM posthaste.webhook_delivery_sagas g
        WHERE g.status <> 'Completed' AND g.status <> 'DeadLettered'
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
    WHERE walk.step < 10000
), busy AS MATERIALIZED (
    SELECT walk.subscription_id, coalesce((
        SELECT s.active AND s.verified AND s.deleted_at IS NULL FROM posthaste.subscriptions s
        WHERE s.id = walk.subscription_id
    ), false) AS open
    FROM walk
)
SELECT
    (SELECT count(*) FROM (
        SELECT FROM busy
        CROSS JOIN (VALUES ('Pending'::posthaste.saga_status, 'infinity'::timestamptz),
            ('PendingRetry', $1::timestamptz))
            AS waiting (status, until)
        CROSS JOIN LATERAL (
            SELECT FROM posthaste.webhook_delivery_sagas g
            WHERE (g.subscription_id, g.status, g.next_attempt_at)
                    >= (busy.subscription_id, waiting.status, '-infinity'::timestamptz)
                AND (g.subscription_id, g.status, g.next_attempt_at)
                    <= (busy.subscription_id, waiting.status, waiting.until)
                AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
            ORDER BY g.subscription_id, g.status, g.next_attempt_at
            LIMIT 100000
        ) g
        WHERE busy.open
        LIMIT 100000) due),
    (SELECT min(g.next_attempt_at) FROM busy
        CROSS JOIN (VALUES ('Pending'::posthaste.saga_status, 'infinity'::timestamptz),
            ('PendingRetry', $1::timestamptz))
            AS waiting (status, until)
        CROSS JOIN LATERAL (
            SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
            WHERE (g.subscription_id, g.status, g.next_attempt_at)
                    >= (busy.subscription_id, waiting.status, '-infinity'::timestamptz)
                AND (g.subscription_id, g.status, g.next_attempt_at)
                    <= (busy.subscription_id, waiting.status, waiting.until)
                AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
            ORDER BY g.subscription_id, g.status, g.next_attempt_at
            LIMIT 1
        ) g
        WHERE busy.open),
    (SELECT count(*) FROM (
        SELECT FROM busy
        CROSS JOIN LATERAL (
            SELECT FROM posthaste.webhook_delivery_sagas g
            WHERE (g.subscription_id, g.status, g.next_attempt_at)
                    >= (busy.subscription_id, 'Pending'::posthaste.saga_status, '-infinity'::timestamptz)
                AND (g.subscription_id, g.status, g.next_attempt_at)
                    <= (busy.subscription_id, 'PendingRetry'::posthaste.saga_status, 'infinity'::timestamptz)
                AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
            ORDER BY g.subscription_id, g.status, g.next_attempt_at
            LIMIT 100000
        ) g
        WHERE NOT busy.open
        LIMIT 100000) held)
