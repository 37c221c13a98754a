-- role: saga_orchestrator
-- Returns the subscriptions and times of sagas in the state ?1 that came due between ?2 and ?3, oldest first, at most
-- ?4.
-- index: idx_saga_status_retry, in order from ?2
SELECT subscription_id, next_attempt_at
FROM webhook_delivery_sagas INDEXED BY idx_saga_status_retry
WHERE status = ?1 AND next_attempt_at >= ?2 AND next_attempt_at <= ?3
ORDER BY next_attempt_at
LIMIT ?4
