-- role: saga_orchestrator
-- Returns the subscriptions with sagas that came due since $1, among the $3 oldest in each waiting state: the number of
-- sagas of each, and their first and last times. A Pending saga is due regardless of its time: one in the future was
-- stored before the clock was set back.
-- index: idx_saga_status_retry.
-- planner: state from VALUES, literal LIMIT. A row comparison is not used: without statistics, the planner would then
-- choose the index on the status alone, and sort.
-- The scan starts at $1, so dead rows before it cost nothing.
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
