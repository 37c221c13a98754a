-- role: saga_orchestrator
-- Which subscriptions have sagas that came due between $1 and $2, among the $3 oldest in each waiting state; how many were
-- looked at in that state, and when the last of them came due.
-- index: idx_saga_status_retry. The states out of VALUES: see find_due_subscriptions.sql; the literal LIMIT (the caller asks
-- for no more): see claim_due_jobs.sql. Not compared as a pair: of that the planner, without statistics, thinks the index over
-- the status alone good enough, and sorts.
-- Nothing that came due before $1 is stepped over, so it does not matter how much of that could not be cleared away.
SELECT array_agg(DISTINCT g.subscription_id), count(*), max(g.next_attempt_at)
FROM (VALUES ('Pending'::posthaste.saga_status), ('PendingRetry')) AS waiting (status)
CROSS JOIN LATERAL (
    SELECT few.subscription_id, few.next_attempt_at
    FROM (
        SELECT g.subscription_id, g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
        WHERE g.status = waiting.status AND g.next_attempt_at >= $1::timestamptz AND g.next_attempt_at <= $2::timestamptz
        ORDER BY g.next_attempt_at
        LIMIT 1000
    ) few
    LIMIT $3::integer
) g
GROUP BY waiting.status
