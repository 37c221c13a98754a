-- role: outbox_worker
-- Returns whether orders are queued, and when the next failed order is due.
-- index: idx_order_status_next, the first entry of each status
SELECT
    EXISTS (SELECT 1 FROM outbox_orders INDEXED BY idx_order_status_next
        WHERE status = 'queued') AS has_queued,
    (SELECT next_attempt_at FROM outbox_orders INDEXED BY idx_order_status_next
        WHERE status = 'failed' ORDER BY next_attempt_at LIMIT 1) AS failed_at
