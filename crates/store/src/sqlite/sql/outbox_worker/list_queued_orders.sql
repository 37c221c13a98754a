-- role: outbox_worker
-- index: idx_order_status_next in its own order
SELECT id, idempotency_key, request_json, request_digest, trace_id, retry_count, created_at
FROM outbox_orders INDEXED BY idx_order_status_next
WHERE status = 'queued' AND next_attempt_at <= ?1
ORDER BY next_attempt_at
LIMIT ?2
