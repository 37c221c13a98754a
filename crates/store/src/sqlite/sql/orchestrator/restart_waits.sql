-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; the plus keeps the status out of the choice of an index
UPDATE webhook_delivery_sagas SET next_attempt_at = ?2, updated_at = ?3
WHERE id = ?1 AND +status = 'PendingRetry'
