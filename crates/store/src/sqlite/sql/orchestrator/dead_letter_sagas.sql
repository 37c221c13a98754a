-- role: saga_orchestrator
-- Dead-letters sagas after their last attempt; a trigger writes the dead letters with the rights of the owner.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_sagas
SET status = 'DeadLettered', attempt_count = ?2, final_error_code = ?4, current_job_id = NULL, updated_at = ?3
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'InProgress'
