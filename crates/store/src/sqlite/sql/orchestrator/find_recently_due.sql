-- role: saga_orchestrator
-- index: idx_saga_status_retry, read in its own order from ?2 on
SELECT subscription_id, next_attempt_at
FROM webhook_delivery_sagas INDEXED BY idx_saga_status_retry
WHERE status = ?1 AND next_attempt_at >= ?2 AND next_attempt_at <= ?3
ORDER BY next_attempt_at
LIMIT ?4
