-- role: lease_cleaner
-- Returns the leases that expired between ?3 and ?1 and those that end at ?4 or later (the clock was set back after
-- they were granted), in the order of their ends. The event columns are for the log.
-- index: idx_job_status_lease, one range for each of the two; primary keys of webhook_delivery_sagas and events
SELECT taken.id, taken.saga_id, taken.worker_id, taken.lease_until, taken.lease_resets,
    (SELECT g.event_id FROM webhook_delivery_sagas g WHERE g.id = taken.saga_id) AS event_id,
    (SELECT e.correlation_id
        FROM webhook_delivery_sagas g JOIN events e ON e.id = g.event_id WHERE g.id = taken.saga_id)
        AS correlation_id
FROM (
    SELECT id, saga_id, worker_id, lease_until, lease_resets
    FROM webhook_delivery_jobs INDEXED BY idx_job_status_lease
    WHERE status = 'Leased' AND lease_until >= ?3 AND lease_until < ?1
    UNION ALL
    SELECT id, saga_id, worker_id, lease_until, lease_resets
    FROM webhook_delivery_jobs INDEXED BY idx_job_status_lease
    WHERE status = 'Leased' AND lease_until >= ?4
    ORDER BY lease_until
    LIMIT ?2
) taken
