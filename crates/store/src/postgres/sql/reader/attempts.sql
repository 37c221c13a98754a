-- role: viewer
-- Returns the jobs of a saga in attempt order.
-- index: uniq_job_saga_attempt.
SELECT j.id, j.status::text, j.attempt_at, j.response_status, j.error_code, j.duration_ms, j.worker_id, j.lease_resets
FROM posthaste.webhook_delivery_jobs j WHERE j.saga_id = $1::bigint ORDER BY j.attempt_at
