-- role: job_worker
-- index: idx_job_status_lease, read in its own order; webhook_delivery_sagas' key
-- Ordered by lease_until alone: one more column would sort the whole backlog. No upper bound: a Pending job is due
-- whatever its time, and one in the future was stored by a clock that was set back since.
-- Suspects are filtered out of the rows that the scan reads anyway; find_suspect_job.sql finds them.
SELECT j.id, j.saga_id, g.event_id, g.subscription_id, g.attempt_count, j.lease_until AS claimable_since
FROM webhook_delivery_jobs j INDEXED BY idx_job_status_lease
CROSS JOIN webhook_delivery_sagas g ON g.id = j.saga_id
WHERE j.status = 'Pending' AND j.lease_until >= ?1 AND NOT j.suspect
ORDER BY j.lease_until
LIMIT ?2
