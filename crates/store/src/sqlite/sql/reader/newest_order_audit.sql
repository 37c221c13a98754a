-- role: viewer
-- Returns the latest ?2 transitions of an order, newest first.
-- index: uniq_order_idempotency_key, then idx_audit_order backwards
SELECT a.id, a.status_from, a.status_to, a.retry_count, a.last_error, a.idempotency_key, a.trace_id,
    a.broker_order_id, a.worker_id, a.note, a.created_at
FROM outbox_orders o
CROSS JOIN outbox_audit a INDEXED BY idx_audit_order ON a.outbox_id = o.id
WHERE o.idempotency_key = ?1
ORDER BY a.id DESC
LIMIT ?2
