-- role: job_worker
-- Returns the suspect that has waited longest. There is no upper bound: a Pending job is due regardless of its time.
-- index: idx_job_suspect, in order; primary key of webhook_delivery_sagas
SELECT j.id, j.saga_id, g.event_id, g.subscription_id, g.attempt_count, j.lease_until AS claimable_since
FROM webhook_delivery_jobs j INDEXED BY idx_job_suspect
CROSS JOIN webhook_delivery_sagas g ON g.id = j.saga_id
WHERE j.suspect AND j.status = 'Pending' AND j.lease_until >= ?1
ORDER BY j.lease_until
LIMIT 1
