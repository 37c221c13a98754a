-- role: lease_cleaner
-- Returns and locks the leases that expired between $3 and $1, oldest first, and those that end later than $4, because
-- the clock was set back after they were granted. A job that is locked by its report is skipped, so the report wins.
-- The event columns are for the log.
-- index: idx_job_status_lease, webhook_delivery_sagas_pkey, events_pkey.
-- planner: row comparison, literal LIMIT.
SELECT few.id, few.saga_id, few.worker_id, few.lease_until, few.lease_resets, event.event_id, event.correlation_id
FROM (VALUES ('Leased'::posthaste.job_status, $3::timestamptz, $1::timestamptz),
    ('Leased', $4::timestamptz, 'infinity'))
    AS expired (status, low, high)
CROSS JOIN LATERAL (
    SELECT j.id, j.saga_id, j.worker_id, j.lease_until, j.lease_resets FROM posthaste.webhook_delivery_jobs j
    WHERE (j.status, j.lease_until) >= (expired.status, expired.low)
        AND (j.status, j.lease_until) < (expired.status, expired.high)
    ORDER BY j.status, j.lease_until
    LIMIT 1000
    FOR NO KEY UPDATE SKIP LOCKED
) few
CROSS JOIN LATERAL (
    SELECT g.event_id, (SELECT e.correlation_id FROM posthaste.events e WHERE e.id = g.event_id) AS correlation_id
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = few.saga_id OFFSET 0
) event
LIMIT $2::integer
