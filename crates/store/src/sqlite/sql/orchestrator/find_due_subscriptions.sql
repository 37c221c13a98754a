-- role: saga_orchestrator
-- Iterates over the subscriptions with unfinished sagas, at most ?2 of them after ?1, and returns for each the earliest
-- time of a saga that is due at ?3: NULL if none is due or if the subscription is inactive, unverified or deleted. A
-- Pending saga is due regardless of its time: one in the future was stored before the clock was set back.
-- index: idx_saga_subscription_due, one probe per subscription; primary key of subscriptions
-- This is a skip scan by recursion: each step jumps to the next subscription, however many sagas the current one has.
-- The conditions on the three states repeat the predicate of the partial index word for word, so that SQLite recognizes
-- it.
WITH RECURSIVE walk (subscription_id, probes) AS (
    SELECT (SELECT g.subscription_id
            FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            WHERE g.subscription_id > ?1
                AND (g.status = 'Pending' OR g.status = 'InProgress' OR g.status = 'PendingRetry')
            ORDER BY g.subscription_id LIMIT 1), 1
    UNION ALL
    SELECT (SELECT g.subscription_id
            FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
            WHERE g.subscription_id > walk.subscription_id
                AND (g.status = 'Pending' OR g.status = 'InProgress' OR g.status = 'PendingRetry')
            ORDER BY g.subscription_id LIMIT 1), walk.probes + 1
    FROM walk
    WHERE walk.subscription_id IS NOT NULL AND walk.probes < ?2
)
SELECT walk.subscription_id,
    CASE WHEN EXISTS (SELECT 1 FROM subscriptions s
                      WHERE s.id = walk.subscription_id AND s.active = 1 AND s.verified = 1 AND s.deleted_at IS NULL)
        THEN (SELECT min(since) FROM (
            SELECT (SELECT g.next_attempt_at FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
                    WHERE g.subscription_id = walk.subscription_id AND g.status = 'Pending'
                    ORDER BY g.next_attempt_at LIMIT 1) AS since
            UNION ALL
            SELECT (SELECT g.next_attempt_at FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
                    WHERE g.subscription_id = walk.subscription_id AND g.status = 'PendingRetry'
                        AND g.next_attempt_at <= ?3
                    ORDER BY g.next_attempt_at LIMIT 1)))
    END AS due_since
FROM walk
WHERE walk.subscription_id IS NOT NULL
