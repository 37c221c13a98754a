-- role: job_worker
-- Completes a job if the token is current. The token stays, so that a repeated report is recognized.
-- index: primary key; the unary + keeps the other columns from selecting an index
UPDATE webhook_delivery_jobs
SET status = 'Completed', response_status = ?3, duration_ms = ?4
WHERE id = ?1 AND +status = 'Leased' AND +lease_token = ?2
