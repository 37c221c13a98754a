-- role: job_worker
-- index: webhook_delivery_jobs' key; the pluses keep the rest out of the choice of an index
-- Only the holder of the lease changes anything; the token stays, so that a repeated report is known.
UPDATE webhook_delivery_jobs
SET status = 'Completed', response_status = ?3, duration_ms = ?4
WHERE id = ?1 AND +status = 'Leased' AND +lease_token = ?2
