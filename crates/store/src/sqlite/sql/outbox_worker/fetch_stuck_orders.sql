-- role: outbox_worker
-- Returns orders that were claimed before ?1, or after ?3, because the clock was set back.
-- index: idx_order_status_next; reads all orders that are being sent, whose number is bounded
SELECT id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, result_json, maybe_executed, created_at, updated_at,
    lease_token
FROM outbox_orders INDEXED BY idx_order_status_next
WHERE status = 'sending' AND (updated_at < ?1 OR updated_at > ?3)
ORDER BY next_attempt_at
LIMIT ?2
