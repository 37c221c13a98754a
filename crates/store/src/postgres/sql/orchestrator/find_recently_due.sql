-- role: saga_orchestrator
-- The subscriptions with sagas that came due from $1 on, among the $3 oldest in each waiting state: how many of them each
-- has, and the first and the last of their times. A Pending saga is due whatever its time: one in the future was stored
-- by a clock that was set back since.
-- index: idx_saga_status_retry. The states out of VALUES: see find_due_subscriptions.sql; the literal LIMIT (the caller asks
-- for no more): see claim_due_jobs.sql. Not compared as a pair: of that the planner, without statistics, thinks the index over
-- the status alone good enough, and sorts.
-- Nothing that came due before $1 is read, so rows that could not be cleared away there cost nothing.
SELECT waiting.status::text, g.subscription_id, count(*) AS sagas, min(g.next_attempt_at) AS first_at,
    max(g.next_attempt_at) AS last_at
FROM (VALUES ('Pending'::posthaste.saga_status, 'infinity'::timestamptz), ('PendingRetry', $2::timestamptz))
    AS waiting (status, until)
CROSS JOIN LATERAL (
    SELECT few.subscription_id, few.next_attempt_at
    FROM (
        SELECT g.subscription_id, g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
        WHERE g.status = waiting.status AND g.next_attempt_at >= $1::timestamptz AND g.next_attempt_at <= waiting.until
        ORDER BY g.next_attempt_at
        LIMIT 1000
    ) few
    LIMIT $3::integer
) g
GROUP BY waiting.status, g.subscription_id
