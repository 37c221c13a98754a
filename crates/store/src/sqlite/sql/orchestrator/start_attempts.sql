-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; uniq_job_active finds the one job that was just made
-- The plus keeps the status out of the choice of an index.
UPDATE webhook_delivery_sagas
SET status = 'InProgress', updated_at = ?2, current_job_id = (
    SELECT j.id FROM webhook_delivery_jobs j INDEXED BY uniq_job_active
    WHERE j.saga_id = webhook_delivery_sagas.id AND (j.status = 'Pending' OR j.status = 'Leased'))
WHERE id IN (SELECT value FROM rarray(?1)) AND +status IN ('Pending', 'PendingRetry')
