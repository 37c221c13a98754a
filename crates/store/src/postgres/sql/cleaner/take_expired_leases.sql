-- role: job_worker
-- Leases that ran out, oldest first. A job whose report is being written is left out: the report wins.
-- index: idx_job_status_lease, from its first Leased entry on. The pair and the literal LIMIT: see claim_due_jobs.sql.
SELECT few.id, few.saga_id, few.worker_id, few.lease_until, few.lease_resets
FROM (
    SELECT j.id, j.saga_id, j.worker_id, j.lease_until, j.lease_resets FROM posthaste.webhook_delivery_jobs j
    WHERE (j.status, j.lease_until) >= ('Leased', '-infinity') AND (j.status, j.lease_until) < ('Leased', $1::timestamptz)
    ORDER BY j.status, j.lease_until
    LIMIT 1000
    FOR NO KEY UPDATE SKIP LOCKED
) few
LIMIT $2::integer
