-- role: saga_orchestrator
-- Returns the retries that are scheduled at $1 or later, in the order of their times, at most $2.
-- index: idx_saga_status_retry.
-- planner: state from VALUES, literal LIMIT.
-- No row is locked: few of them are changed, and the update is conditional.
SELECT few.id, few.updated_at, few.next_attempt_at
FROM (SELECT 'PendingRetry'::posthaste.saga_status AS status OFFSET 0) waiting
CROSS JOIN LATERAL (
    SELECT g.id, g.updated_at, g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
    WHERE g.status = waiting.status AND g.next_attempt_at >= $1::timestamptz
    ORDER BY g.next_attempt_at
    LIMIT 1000
) few
LIMIT $2::integer
