-- role: saga_orchestrator
-- Moves sagas to InProgress, each with the job that insert_jobs.sql has just inserted.
-- index: primary key (the unary + keeps the status from selecting an index); uniq_job_active finds the job
UPDATE webhook_delivery_sagas
SET status = 'InProgress', updated_at = ?2, current_job_id = (
    SELECT j.id FROM webhook_delivery_jobs j INDEXED BY uniq_job_active
    WHERE j.saga_id = webhook_delivery_sagas.id AND (j.status = 'Pending' OR j.status = 'Leased'))
WHERE id IN (SELECT value FROM rarray(?1)) AND +status IN ('Pending', 'PendingRetry')
