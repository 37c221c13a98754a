-- role: saga_orchestrator
-- Returns and locks the due sagas of each active, verified subscription in $1: up to $2 that are due for their first
-- attempt and up to $2 that are due for a retry, oldest first (admission::decide chooses among them). Skips sagas that
-- another orchestrator is admitting and those that were due before $3. A Pending saga is due regardless of its time.
-- index: idx_saga_subscription_due, subscriptions_pkey.
-- planner: literal predicate, state from VALUES, array of one.
-- Each branch reads the index in order and stops at the quota, so the cost does not depend on the size of the backlog.
-- Measured with 300,000 finished sagas and 32 subscriptions with 16 due sagas each: 2 buffers and 3 µs per saga.
SELECT g.id, g.event_id, quota.subscription_id, waiting.status::text, g.attempt_count, g.next_attempt_at,
    g.final_error_code, g.current_job_id, s.max_retry_limit
FROM unnest((SELECT $1::bigint[]), (SELECT $2::integer[]), (SELECT $3::timestamptz[]))
    AS quota (subscription_id, jobs_max, due_from)
CROSS JOIN LATERAL (
    SELECT s.max_retry_limit FROM posthaste.subscriptions s
    WHERE s.id = quota.subscription_id AND s.active AND s.verified AND s.deleted_at IS NULL
    OFFSET 0
) s
CROSS JOIN (VALUES ('Pending'::posthaste.saga_status, 'infinity'::timestamptz), ('PendingRetry', $4::timestamptz))
    AS waiting (status, until)
CROSS JOIN LATERAL (
    SELECT g.id, g.event_id, g.attempt_count, g.next_attempt_at, g.final_error_code, g.current_job_id
    FROM posthaste.webhook_delivery_sagas g
    WHERE g.subscription_id = ANY (ARRAY[quota.subscription_id]) AND g.status = waiting.status
        AND g.next_attempt_at >= quota.due_from AND g.next_attempt_at <= waiting.until
        AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
    ORDER BY g.subscription_id, g.status, g.next_attempt_at
    LIMIT quota.jobs_max
    FOR NO KEY UPDATE SKIP LOCKED
) g
