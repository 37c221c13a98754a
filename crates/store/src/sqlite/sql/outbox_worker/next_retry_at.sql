-- role: outbox_worker
-- index: idx_order_status_next; its first entry of those that failed
SELECT next_attempt_at FROM outbox_orders INDEXED BY idx_order_status_next
WHERE status = 'failed'
ORDER BY next_attempt_at
LIMIT 1
