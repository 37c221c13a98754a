-- role: job_worker
-- index: webhook_delivery_jobs' key
-- Asked only when a report changed nothing: the same report again, or a lease that was lost.
SELECT 1 FROM webhook_delivery_jobs
WHERE id = ?1 AND +status IN ('Completed', 'Failed') AND +lease_token = ?2
