-- role: saga_orchestrator
-- Reschedules a retry to the time ?2.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_sagas SET next_attempt_at = ?2, updated_at = ?3
WHERE id = ?1 AND +status = 'PendingRetry'
