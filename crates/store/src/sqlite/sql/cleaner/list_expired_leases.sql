-- role: job_worker
-- index: idx_job_status_lease, read in its own order; webhook_delivery_sagas' and events' keys
SELECT j.id, j.saga_id, j.worker_id, j.lease_until, j.lease_resets,
    (SELECT g.event_id FROM webhook_delivery_sagas g WHERE g.id = j.saga_id),
    (SELECT e.correlation_id FROM webhook_delivery_sagas g JOIN events e ON e.id = g.event_id WHERE g.id = j.saga_id)
FROM webhook_delivery_jobs j INDEXED BY idx_job_status_lease
WHERE j.status = 'Leased' AND j.lease_until >= ?3 AND j.lease_until < ?1
ORDER BY j.lease_until
LIMIT ?2
