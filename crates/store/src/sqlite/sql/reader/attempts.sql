-- role: viewer
-- Returns the jobs of a saga in attempt order.
-- index: uniq_job_saga_attempt, in order
SELECT id, status, attempt_at, response_status, error_code, duration_ms, worker_id, lease_resets
FROM webhook_delivery_jobs INDEXED BY uniq_job_saga_attempt
WHERE saga_id = ?1 ORDER BY attempt_at
