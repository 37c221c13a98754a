-- role: job_worker
-- Releases jobs that were claimed but not started. This does not count as a reset.
-- index: webhook_delivery_jobs_pkey.
UPDATE posthaste.webhook_delivery_jobs j
SET status = 'Pending', lease_until = $3::timestamptz, lease_token = NULL, worker_id = NULL
WHERE j.id = ANY ((SELECT $1::bigint[])::bigint[]) AND CASE WHEN j.status = 'Leased' THEN true ELSE false END
    AND j.lease_token = $2::uuid
RETURNING j.id
