-- role: saga_orchestrator
-- Returns and locks finished jobs whose result is not yet applied, each with its saga and the retry limit of its
-- subscription. Skips jobs that another orchestrator is applying.
-- index: finished_jobs_pkey, then one descent each into three primary keys.
-- planner: literal LIMIT, fenced lookup.
-- The inbox contains only unapplied results, so the cost does not depend on the number of sagas in progress.
-- Measured with 300,000 rows in each table, in batches of 500: 9 buffers and 5 µs per result; a single result takes 19
-- buffers with 100 sagas in progress and with 100,000.
WITH taken AS MATERIALIZED (
    SELECT few.job_id
    FROM (
        SELECT f.job_id FROM posthaste.finished_jobs f
        WHERE f.job_id >= $1::bigint
        ORDER BY f.job_id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) few
    LIMIT $2::integer
)
SELECT t.job_id, j.status::text AS job_status, j.error_code, j.retry_after_s,
    g.id AS saga_id, g.event_id, g.subscription_id, g.status::text, g.attempt_count, g.next_attempt_at,
        g.final_error_code,
    g.current_job_id, g.created_at AS saga_created_at, s.max_retry_limit
FROM taken t
LEFT JOIN LATERAL (
    SELECT j.saga_id, j.status, j.error_code, j.retry_after_s
    FROM posthaste.webhook_delivery_jobs j WHERE j.id = t.job_id OFFSET 0
) j ON true
LEFT JOIN LATERAL (
    SELECT g.* FROM posthaste.webhook_delivery_sagas g WHERE g.id = j.saga_id OFFSET 0
) g ON true
LEFT JOIN LATERAL (
    SELECT s.max_retry_limit FROM posthaste.subscriptions s WHERE s.id = g.subscription_id OFFSET 0
) s ON true
