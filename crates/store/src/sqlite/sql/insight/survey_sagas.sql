-- role: viewer
-- Returns the number of sagas that are due at ?1 and may be sent, the time at which the oldest of them became due, and
-- the number of held sagas; see find_due_subscriptions.sql.
-- index: idx_saga_subscription_due, one probe per subscription, at most 10,000; primary key of subscriptions
WITH RECURSIVE walk (subscription_id, probes) AS (
    SELECT (SELECT g.subscription_id
            FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            WHERE g.subscription_id > 0
                AND (g.status = 'Pending' OR g.status = 'InProgress' OR g.status = 'PendingRetry')
            ORDER BY g.subscription_id LIMIT 1), 1
    UNION ALL
    SELECT (SELECT g.subscription_id
            FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            WHERE g.subscription_id > walk.subscription_id
                AND (g.status = 'Pending' OR g.status = 'InProgress' OR g.status = 'PendingRetry')
            ORDER BY g.subscription_id LIMIT 1), walk.probes + 1
    FROM walk
    WHERE walk.subscription_id IS NOT NULL AND walk.probes < 10000
), busy AS MATERIALIZED (
    SELECT walk.subscription_id,
        EXISTS (SELECT 1 FROM subscriptions s
            WHERE s.id = walk.subscription_id AND s.active = 1 AND s.verified = 1 AND s.deleted_at IS NULL) AS open
    FROM walk WHERE walk.subscription_id IS NOT NULL
)
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM busy
        CROSS JOIN webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            ON g.subscription_id = busy.subscription_id
            AND g.status = 'Pending'
        WHERE busy.open LIMIT 100000)),
    (SELECT count(*) FROM (SELECT 1 FROM busy
        CROSS JOIN webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            ON g.subscription_id = busy.subscription_id
            AND g.status = 'PendingRetry' AND g.next_attempt_at <= ?1
        WHERE busy.open LIMIT 100000)),
    (SELECT min((SELECT g.next_attempt_at FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            WHERE g.subscription_id = busy.subscription_id AND g.status = 'Pending'
            ORDER BY g.next_attempt_at LIMIT 1))
        FROM busy WHERE busy.open),
    (SELECT min((SELECT g.next_attempt_at FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            WHERE g.subscription_id = busy.subscription_id AND g.status = 'PendingRetry' AND g.next_attempt_at <= ?1
            ORDER BY g.next_attempt_at LIMIT 1))
        FROM busy WHERE busy.open),
    (SELECT count(*) FROM (SELECT 1 FROM busy
        CROSS JOIN webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            ON g.subscription_id = busy.subscription_id
            AND (g.status = 'Pending' OR g.status = 'InProgress' OR g.status = 'PendingRetry')
        WHERE NOT busy.open LIMIT 100000))
