-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key
-- The dead letter itself is written by a trigger, with the rights of the owner.
UPDATE webhook_delivery_sagas
SET status = 'DeadLettered', attempt_count = ?2, final_error_code = ?3, current_job_id = NULL, updated_at = ?4
WHERE id = ?1 AND +status IN ('InProgress', 'PendingRetry')
