-- role: saga_orchestrator
-- Makes the jobs of the attempts that were decided, and moves exactly the sagas whose job is new.
-- index: uniq_job_saga_attempt and uniq_job_active decide what is new; webhook_delivery_sagas_pkey.
-- No conflict target: both keys count. The status is compared inside a CASE, which no index serves: with the stale
-- statistics of a queue the planner would otherwise join through the status index, batch times batch. (A cast to text
-- does the same, at a look into the catalog for every row.) The arrays come out of subselects, so that their length
-- is not known when planning: for a batch of hundreds the planner thinks a scan of a table of a hundred thousand
-- cheaper than as many descents, which is not so in memory.
-- Measured beside 300,000 of each, batches of 500: 23 buffers for a job, 26 for its saga, 27 µs for both.
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
