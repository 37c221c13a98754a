-- role: job_worker
-- Returns the jobs that are finished under the given tokens, that is, those that were reported before.
-- index: webhook_delivery_jobs_pkey.
SELECT j.id, j.lease_token
FROM unnest((SELECT $1::bigint[]), (SELECT $2::uuid[])) AS report (job_id, lease_token)
CROSS JOIN LATERAL (
    SELECT j.id, j.status, j.lease_token FROM posthaste.webhook_delivery_jobs j WHERE j.id = report.job_id OFFSET 0
) j
WHERE j.status IN ('Completed', 'Failed') AND j.lease_token = report.lease_token
