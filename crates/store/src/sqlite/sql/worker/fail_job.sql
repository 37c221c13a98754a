-- role: job_worker
-- index: webhook_delivery_jobs' key; the pluses keep the rest out of the choice of an index
-- Only the holder of the lease changes anything; the token stays, so that a repeated report is known.
UPDATE webhook_delivery_jobs
SET status = 'Failed', response_status = ?3, duration_ms = ?4, error_code = ?5, retry_after_s = ?6
WHERE id = ?1 AND +status = 'Leased' AND +lease_token = ?2
