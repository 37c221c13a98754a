-- role: outbox_worker
-- Returns queued orders, oldest first. A queued order is due regardless of its time: one in the future was stored
-- before the clock was set back.
-- index: idx_order_status_next, in order
SELECT id, idempotency_key, request_json, request_digest, trace_id, retry_count, created_at
FROM outbox_orders INDEXED BY idx_order_status_next
WHERE status = 'queued'
ORDER BY next_attempt_at
LIMIT ?1
