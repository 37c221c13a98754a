-- role: viewer
-- Returns the jobs of the sagas $1, in attempt order within each saga.
-- index: uniq_job_saga_attempt.
SELECT j.id, j.status::text, j.attempt_at, j.response_status, j.error_code, j.duration_ms, j.worker_id, j.lease_resets,
    asked.saga_id
FROM unnest((SELECT $1::bigint[])) AS asked (saga_id)
CROSS JOIN LATERAL (
    SELECT j.* FROM posthaste.webhook_delivery_jobs j
        WHERE j.saga_id = asked.saga_id ORDER BY j.saga_id, j.attempt_at LIMIT 1000
) j
