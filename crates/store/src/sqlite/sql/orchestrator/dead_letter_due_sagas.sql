-- role: saga_orchestrator
-- Dead-letters due sagas that have reached their retry limit because it was lowered. A trigger writes the dead letters.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_sagas
SET status = 'DeadLettered', current_job_id = NULL, updated_at = ?2
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'PendingRetry'
