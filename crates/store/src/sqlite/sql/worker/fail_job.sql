-- role: job_worker
-- Fails a job if the token is current. The token stays, so that a repeated report is recognized.
-- index: primary key; the unary + keeps the other columns from selecting an index
UPDATE webhook_delivery_jobs
SET status = 'Failed', response_status = ?3, duration_ms = ?4, error_code = ?5, retry_after_s = ?6
WHERE id = ?1 AND +status = 'Leased' AND +lease_token = ?2
