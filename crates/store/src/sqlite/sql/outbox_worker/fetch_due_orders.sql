-- role: outbox_worker
-- Returns the failed orders that are due again at ?1, oldest first.
-- index: idx_order_status_next, in order
SELECT id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, result_json, maybe_executed, created_at, updated_at,
    lease_token
FROM outbox_orders INDEXED BY idx_order_status_next
WHERE status = 'failed' AND next_attempt_at <= ?1
ORDER BY next_attempt_at
LIMIT ?2
