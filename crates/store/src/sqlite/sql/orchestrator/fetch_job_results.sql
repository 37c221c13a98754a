-- role: saga_orchestrator
-- Returns finished jobs whose result is not yet applied, each with its saga and the retry limit of its subscription.
-- The inbox contains only unapplied results, so the cost does not depend on the sagas in progress or on history.
-- index: primary keys of finished_jobs, webhook_delivery_jobs, webhook_delivery_sagas and subscriptions. The outer
-- joins keep the inbox as the outermost loop.
SELECT f.job_id, j.status AS job_status, j.error_code, j.retry_after_s,
    g.id AS saga_id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.created_at AS saga_created_at, s.max_retry_limit
FROM finished_jobs f
LEFT JOIN webhook_delivery_jobs j ON j.id = f.job_id
LEFT JOIN webhook_delivery_sagas g ON g.id = j.saga_id
LEFT JOIN subscriptions s ON s.id = g.subscription_id
WHERE f.job_id >= ?1
ORDER BY f.job_id
LIMIT ?2
