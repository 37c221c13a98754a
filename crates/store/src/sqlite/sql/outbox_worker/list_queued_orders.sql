-- role: outbox_worker
-- index: idx_order_status_next in its own order
-- A queued order is due whatever its time: one in the future was stored by a clock that was set back since.
SELECT id, idempotency_key, request_json, request_digest, trace_id, retry_count, created_at
FROM outbox_orders INDEXED BY idx_order_status_next
WHERE status = 'queued'
ORDER BY next_attempt_at
LIMIT ?1
