-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; the plus keeps the status out of the choice of an index
-- The dead letter itself is written by a trigger, with the rights of the owner.
UPDATE webhook_delivery_sagas
SET status = 'DeadLettered', attempt_count = ?2, final_error_code = ?4, current_job_id = NULL, updated_at = ?3
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'InProgress'
