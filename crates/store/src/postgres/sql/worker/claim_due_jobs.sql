-- role: job_worker
-- Leases the jobs that have waited longest, with what their sagas say of them.
-- index: idx_job_status_lease for the pick, the place of the rows for the update, webhook_delivery_sagas_pkey.
-- Ordered by lease_until alone: a second key would sort the whole backlog. The literal LIMIT keeps the
-- estimate small under a generic plan; rows are locked only as far as $6 lets them be read.
-- set_config: a lease that a crash forgets was never told to a receiver as such, so nobody waits for the disk.
WITH picked AS MATERIALIZED (
    SELECT few.*
    FROM (
        SELECT j.ctid AS place, j.id, j.saga_id, j.lease_until FROM posthaste.webhook_delivery_jobs j
        WHERE j.status = 'Pending' AND j.lease_until >= $1::timestamptz AND j.lease_until <= $2::timestamptz
        ORDER BY j.lease_until
        LIMIT 10000
        FOR NO KEY UPDATE SKIP LOCKED
    ) few
    LIMIT (SELECT CASE WHEN set_config('synchronous_commit', 'off', true) = 'off' THEN $6::integer END)
), leased AS (
    UPDATE posthaste.webhook_delivery_jobs j
    SET status = 'Leased', lease_until = $3::timestamptz, lease_token = $4::uuid, worker_id = $5::text
    WHERE j.ctid = ANY (ARRAY(SELECT p.place FROM picked p)) AND j.status::text = 'Pending'
    RETURNING j.id
)
SELECT p.id, p.saga_id, g.event_id, g.subscription_id, g.attempt_count, p.lease_until
FROM picked p
CROSS JOIN LATERAL (
    SELECT g.event_id, g.subscription_id, g.attempt_count
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = p.saga_id OFFSET 0
) g
WHERE p.id IN (SELECT leased.id FROM leased)
