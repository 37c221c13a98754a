-- role: job_worker
-- Releases a job that was claimed but not started. This does not count as a reset.
-- index: primary key; the unary + keeps the other columns from selecting an index
UPDATE webhook_delivery_jobs
SET status = 'Pending', lease_until = ?3, lease_token = NULL, worker_id = NULL
WHERE id = ?1 AND +status = 'Leased' AND +lease_token = ?2
