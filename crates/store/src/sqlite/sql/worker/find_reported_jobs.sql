-- role: job_worker
-- Returns a row if the job is finished under the given token. Executed only if a report changed no row: it is a retry,
-- or the lease was lost.
-- index: primary key of webhook_delivery_jobs
SELECT 1 FROM webhook_delivery_jobs
WHERE id = ?1 AND +status IN ('Completed', 'Failed') AND +lease_token = ?2
