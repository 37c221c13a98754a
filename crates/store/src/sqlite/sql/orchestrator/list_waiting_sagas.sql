-- role: saga_orchestrator
-- index: idx_saga_status_retry, read in its own order from ?1 on
SELECT id, updated_at, next_attempt_at
FROM webhook_delivery_sagas INDEXED BY idx_saga_status_retry
WHERE status = 'PendingRetry' AND next_attempt_at >= ?1
ORDER BY next_attempt_at
LIMIT ?2
