-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; the plus keeps the status out of the choice of an index
-- Ends sagas that came due over a limit that had been lowered; a trigger writes their dead letters.
UPDATE webhook_delivery_sagas
SET status = 'DeadLettered', current_job_id = NULL, updated_at = ?2
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'PendingRetry'
