-- role: saga_orchestrator
-- The retries that wait until $1 or longer, in the order of their times, $2 at most.
-- index: idx_saga_status_retry. The state out of a subselect that OFFSET keeps apart: see count_in_flight.sql; the literal
-- LIMIT: see claim_due_jobs.sql. Nothing is locked: hardly any of them is changed, and the change is conditional.
SELECT few.id, few.updated_at, few.next_attempt_at
FROM (SELECT 'PendingRetry'::posthaste.saga_status AS status OFFSET 0) waiting
CROSS JOIN LATERAL (
    SELECT g.id, g.updated_at, g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
    WHERE g.status = waiting.status AND g.next_attempt_at >= $1::timestamptz
    ORDER BY g.next_attempt_at
    LIMIT 1000
) few
LIMIT $2::integer
