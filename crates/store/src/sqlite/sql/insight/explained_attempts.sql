-- role: viewer
-- Returns the jobs of a saga in attempt order.
-- index: uniq_job_saga_attempt
SELECT j.id, j.status, j.attempt_at, j.response_status, j.error_code, j.duration_ms, j.worker_id, j.lease_resets
FROM webhook_delivery_jobs j WHERE j.saga_id = ?1 ORDER BY j.attempt_at LIMIT 1000
