-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; the pluses keep the rest out of the choice of an index
UPDATE webhook_delivery_sagas
SET status = 'PendingRetry', attempt_count = ?3, next_attempt_at = ?4, final_error_code = ?5,
    current_job_id = NULL, updated_at = ?6
WHERE id = ?1 AND +current_job_id = ?2 AND +status = 'InProgress'
