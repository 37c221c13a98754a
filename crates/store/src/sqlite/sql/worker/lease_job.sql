-- role: job_worker
-- index: webhook_delivery_jobs' key; the plus keeps the status out of the choice of an index
UPDATE webhook_delivery_jobs
SET status = 'Leased', lease_until = ?2, lease_token = ?3, worker_id = ?4
WHERE id = ?1 AND +status = 'Pending'
