-- role: job_worker
-- Returns the jobs of a claim whose response was lost, by its token and the exact end of its leases. The time at which
-- they became claimable has been overwritten; their creation time is a safe substitute.
-- index: idx_job_status_lease, webhook_delivery_sagas_pkey.
-- planner: row comparison.
SELECT j.id, j.saga_id, g.event_id, g.subscription_id, g.attempt_count, j.created_at AS claimable_since
FROM posthaste.webhook_delivery_jobs j
CROSS JOIN LATERAL (
    SELECT g.event_id, g.subscription_id, g.attempt_count
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = j.saga_id OFFSET 0
) g
WHERE (j.status, j.lease_until) >= ('Leased', $1::timestamptz)
    AND (j.status, j.lease_until) <= ('Leased', $1::timestamptz)
    AND j.lease_token = $2::uuid
