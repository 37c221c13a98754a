-- role: saga_orchestrator
-- Schedules the next attempt of sagas whose attempt failed.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_sagas
SET status = 'PendingRetry', attempt_count = ?2, next_attempt_at = ?4, final_error_code = ?5,
    current_job_id = NULL, updated_at = ?3
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'InProgress'
