-- role: lease_cleaner
-- Resets jobs to Pending, or fails those that were reset too often and inserts them into the orchestrator's inbox. Both
-- updates remove the token, so that a late report of the previous holder is refused.
-- index: webhook_delivery_jobs_pkey.
-- The two updates affect different rows: only jobs that become suspect have their flag set, since the cleaner may not
-- read it.
WITH decided AS MATERIALIZED (
    SELECT * FROM unnest((SELECT $1::bigint[]), (SELECT $2::integer[]), (SELECT $3::boolean[]), (SELECT $6::boolean[]))
        AS decided (job_id, lease_resets, fails, suspect)
), suspected AS (
    UPDATE posthaste.webhook_delivery_jobs j
    SET status = 'Pending', lease_until = $4::timestamptz, lease_token = NULL, lease_resets = decided.lease_resets,
        worker_id = NULL, error_code = NULL, suspect = true
    FROM decided
    WHERE j.id = decided.job_id AND decided.suspect AND CASE WHEN j.status = 'Leased' THEN true ELSE false END
    RETURNING j.id
), reset AS (
    UPDATE posthaste.webhook_delivery_jobs j
    SET status = CASE WHEN decided.fails THEN 'Failed' ELSE 'Pending' END::posthaste.job_status,
        lease_until = CASE WHEN decided.fails THEN j.lease_until ELSE $4::timestamptz END,
        lease_token = NULL, lease_resets = decided.lease_resets,
        worker_id = CASE WHEN decided.fails THEN j.worker_id END,
        error_code = CASE WHEN decided.fails THEN $5::text END
    FROM decided
    WHERE j.id = decided.job_id AND NOT decided.suspect AND CASE WHEN j.status = 'Leased' THEN true ELSE false END
    RETURNING j.id, decided.fails
), handed_over AS (
    INSERT INTO posthaste.finished_jobs (job_id) SELECT reset.id FROM reset WHERE reset.fails
)
SELECT reset.id FROM reset UNION ALL SELECT suspected.id FROM suspected
