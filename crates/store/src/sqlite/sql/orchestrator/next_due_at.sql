-- role: saga_orchestrator
-- index: idx_saga_status_retry, its first entry behind now in each of the two states
SELECT min(at) FROM (
    SELECT min(next_attempt_at) AS at FROM webhook_delivery_sagas INDEXED BY idx_saga_status_retry
    WHERE status = 'Pending' AND next_attempt_at > ?1
    UNION ALL
    SELECT min(next_attempt_at) FROM webhook_delivery_sagas INDEXED BY idx_saga_status_retry
    WHERE status = 'PendingRetry' AND next_attempt_at > ?1)
