-- role: saga_orchestrator
-- Returns the retries that are scheduled at ?1 or later, in the order of their times, at most ?2.
-- index: idx_saga_status_retry, in order from ?1
SELECT id, updated_at, next_attempt_at
FROM webhook_delivery_sagas INDEXED BY idx_saga_status_retry
WHERE status = 'PendingRetry' AND next_attempt_at >= ?1
ORDER BY next_attempt_at
LIMIT ?2
