-- role: job_worker
-- Leases the jobs that have waited longest, and returns them with columns of their sagas. Each row has the number of
-- leased jobs, which is smaller than the number of rows only if another process leased and released a job during this
-- statement.
-- index: idx_job_status_lease, webhook_delivery_sagas_pkey.
-- planner: materialized claim, row comparison, literal LIMIT, update by ctid, status in a CASE, fenced lookup.
-- The only upper bound is the status: a Pending job is due regardless of its time, and one in the future was stored
-- before the clock was set back.
-- Suspects are filtered out of the rows that are scanned anyway; claim_suspect_job.sql claims them. Only a full scan
-- reads past them: 2 ms with 10,000 waiting suspects. A partial index without them would avoid that, and cost about 1
-- µs per job.
-- Measured with 300,000 jobs, in batches of 500: 28 buffers and 15 µs per job; 22 of the buffers are for its indexes.
WITH picked AS MATERIALIZED (
    SELECT few.*
    FROM (
        SELECT j.ctid AS place, j.id, j.saga_id, j.lease_until FROM posthaste.webhook_delivery_jobs j
        WHERE (j.status, j.lease_until) >= ('Pending', $1::timestamptz)
            AND (j.status, j.lease_until) <= ('Pending', 'infinity')
            AND NOT j.suspect
        ORDER BY j.status, j.lease_until
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED
    ) few
    LIMIT $2::integer
), leased AS (
    UPDATE posthaste.webhook_delivery_jobs j
    SET status = 'Leased', lease_until = $3::timestamptz, lease_token = $4::uuid, worker_id = $5::text
    WHERE j.ctid = ANY (ARRAY(SELECT p.place FROM picked p)) AND CASE WHEN j.status = 'Pending' THEN true ELSE false END
    RETURNING 1
)
SELECT p.id, p.saga_id, g.event_id, g.subscription_id, g.attempt_count, p.lease_until AS claimable_since,
    (SELECT count(*) FROM leased) AS leased
FROM picked p
CROSS JOIN LATERAL (
    SELECT g.event_id, g.subscription_id, g.attempt_count
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = p.saga_id OFFSET 0
) g
