-- role: job_worker
-- Leases the suspect that has waited longest since $1, and returns the columns of claim_due_jobs.sql. There is no upper
-- bound: a Pending job is due regardless of its time.
-- index: idx_job_suspect, webhook_delivery_jobs_pkey, webhook_delivery_sagas_pkey. Reads one buffer while there is no
-- suspect.
-- planner: materialized claim, literal predicate, status in a CASE.
WITH picked AS MATERIALIZED (
    SELECT j.id, j.saga_id, j.lease_until FROM posthaste.webhook_delivery_jobs j
    WHERE j.suspect AND j.status = 'Pending' AND j.lease_until >= $1::timestamptz
    ORDER BY j.lease_until
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
), leased AS (
    UPDATE posthaste.webhook_delivery_jobs j
    SET status = 'Leased', lease_until = $2::timestamptz, lease_token = $3::uuid, worker_id = $4::text
    WHERE j.id = (SELECT p.id FROM picked p) AND CASE WHEN j.status = 'Pending' THEN true ELSE false END
    RETURNING j.id
)
SELECT p.id, p.saga_id, g.event_id, g.subscription_id, g.attempt_count, p.lease_until AS claimable_since
FROM picked p
JOIN leased l ON l.id = p.id
CROSS JOIN LATERAL (
    SELECT g.event_id, g.subscription_id, g.attempt_count
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = p.saga_id OFFSET 0
) g
