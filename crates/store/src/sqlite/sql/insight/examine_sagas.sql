-- role: viewer
-- Returns the sagas of the events from ?1 to ?2, at most ?3, each with the status of its current job, whether that job
-- is in the inbox, its active job, and whether it has a dead letter.
-- index: idx_saga_event; per saga the primary keys of webhook_delivery_jobs and finished_jobs, idx_job_saga,
-- idx_dead_saga
SELECT g.id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.requeued_from, g.created_at, g.current_job_id,
    (SELECT j.status FROM webhook_delivery_jobs j WHERE j.id = g.current_job_id AND +j.saga_id = g.id)
        AS current_job_status,
    EXISTS (SELECT 1 FROM finished_jobs f WHERE f.job_id = g.current_job_id) AS is_in_inbox,
    (SELECT j.id FROM webhook_delivery_jobs j INDEXED BY idx_job_saga
        WHERE j.saga_id = g.id AND (+j.status = 'Pending' OR +j.status = 'Leased') LIMIT 1) AS active_job_id,
    EXISTS (SELECT 1 FROM dead_letters d WHERE d.saga_id = g.id) AS has_dead_letter
FROM webhook_delivery_sagas g INDEXED BY idx_saga_event
WHERE g.event_id >= ?1 AND g.event_id <= ?2
ORDER BY g.event_id, g.subscription_id
LIMIT ?3
