-- role: job_worker
-- Ends jobs and hands them to the orchestrator's inbox in the same moment; answers which ones.
-- index: webhook_delivery_jobs_pkey.
-- Only the holder of the lease changes anything. The status as text, so that no index over it is taken.
WITH done AS (
    UPDATE posthaste.webhook_delivery_jobs j
    SET status = told.status::posthaste.job_status, response_status = told.response_status,
        error_code = told.error_code, duration_ms = told.duration_ms, retry_after_s = told.retry_after_s
    FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::integer[], $7::integer[])
        AS told (job_id, lease_token, status, response_status, error_code, duration_ms, retry_after_s)
    WHERE j.id = told.job_id AND j.status::text = 'Leased' AND j.lease_token = told.lease_token
    RETURNING j.id
), handed_over AS (
    INSERT INTO posthaste.finished_jobs (job_id) SELECT done.id FROM done
)
SELECT coalesce(array_agg(done.id), '{}') FROM done
