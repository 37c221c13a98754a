-- role: job_worker
-- Returns the jobs that have waited longest, with columns of their sagas. There is no upper bound: a Pending job is due
-- regardless of its time, and one in the future was stored before the clock was set back.
-- index: idx_job_status_lease, in order; primary key of webhook_delivery_sagas. Ordering by a second column would sort
-- the whole backlog.
-- Suspects are filtered out of the rows that are scanned anyway; find_suspect_job.sql finds them.
SELECT j.id, j.saga_id, g.event_id, g.subscription_id, g.attempt_count, j.lease_until AS claimable_since
FROM webhook_delivery_jobs j INDEXED BY idx_job_status_lease
CROSS JOIN webhook_delivery_sagas g ON g.id = j.saga_id
WHERE j.status = 'Pending' AND j.lease_until >= ?1 AND NOT j.suspect
ORDER BY j.lease_until
LIMIT ?2
