-- role: job_worker
-- index: idx_job_status_lease, read in its own order
SELECT id, saga_id, worker_id, lease_until, lease_resets
FROM webhook_delivery_jobs INDEXED BY idx_job_status_lease
WHERE status = 'Leased' AND lease_until < ?1
ORDER BY lease_until
LIMIT ?2
