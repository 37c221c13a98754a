-- role: viewer
-- Returns the sagas of the events from $1 to $2, at most $3, each with the status of its current job, whether that job
-- is in the inbox, its active job, and whether it has a dead letter.
-- index: idx_saga_event; per saga webhook_delivery_jobs_pkey, finished_jobs_pkey, idx_job_saga, idx_dead_saga.
-- Lookups are scalar subselects, which cannot become a join. States are compared in a CASE, which no index serves. The
-- inbox is probed for the first id from current_job_id on: one index descent, however small the statistics say the
-- inbox is.
SELECT g.id, g.event_id, g.subscription_id, g.status::text, g.attempt_count, g.requeued_from, g.created_at,
    g.current_job_id,
    (SELECT j.status::text
        FROM posthaste.webhook_delivery_jobs j WHERE j.id = g.current_job_id AND j.saga_id + 0 = g.id)
        AS current_job_status,
    coalesce((SELECT f.job_id FROM posthaste.finished_jobs f
        WHERE f.job_id >= g.current_job_id ORDER BY f.job_id LIMIT 1) = g.current_job_id, false) AS is_in_inbox,
    (SELECT j.id FROM posthaste.webhook_delivery_jobs j
        WHERE j.saga_id = g.id AND CASE WHEN j.status IN ('Pending', 'Leased') THEN true ELSE false END LIMIT 1)
        AS active_job_id,
    (SELECT true FROM posthaste.dead_letters d WHERE d.saga_id = g.id LIMIT 1) IS NOT NULL AS has_dead_letter
FROM (
    SELECT g.* FROM posthaste.webhook_delivery_sagas g
    WHERE g.event_id >= $1::bigint AND g.event_id <= $2::bigint
    ORDER BY g.event_id, g.subscription_id
    LIMIT $3::bigint
) g
ORDER BY g.event_id, g.subscription_id
