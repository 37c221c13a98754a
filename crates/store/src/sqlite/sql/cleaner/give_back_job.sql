-- role: lease_cleaner
-- index: webhook_delivery_jobs' key; the plus keeps the status out of the choice of an index
UPDATE webhook_delivery_jobs
SET status = 'Pending', lease_until = ?2, lease_token = NULL, worker_id = NULL, lease_resets = ?3
WHERE id = ?1 AND +status = 'Leased'
