-- role: job_worker
-- index: webhook_delivery_jobs' key; the pluses keep the rest out of the choice of an index
UPDATE webhook_delivery_jobs
SET status = 'Pending', lease_until = ?3, lease_token = NULL, worker_id = NULL
WHERE id = ?1 AND +status = 'Leased' AND +lease_token = ?2
