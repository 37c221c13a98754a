-- role: job_worker
-- The jobs that a claim leased whose answer was lost: same token, and exactly the end that it would have set.
-- index: idx_job_status_lease, webhook_delivery_sagas_pkey. The pairs: see claim_due_jobs.sql.
-- Since when they could be claimed is overwritten by then; when they were made is the safe answer.
SELECT j.id, j.saga_id, g.event_id, g.subscription_id, g.attempt_count, j.created_at AS claimable_since
FROM posthaste.webhook_delivery_jobs j
CROSS JOIN LATERAL (
    SELECT g.event_id, g.subscription_id, g.attempt_count
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = j.saga_id OFFSET 0
) g
WHERE (j.status, j.lease_until) >= ('Leased', $1::timestamptz) AND (j.status, j.lease_until) <= ('Leased', $1::timestamptz)
    AND j.lease_token = $2::uuid
