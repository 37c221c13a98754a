-- role: viewer
-- Returns the transitions of an order after ?2, oldest first.
-- index: uniq_order_idempotency_key, then idx_audit_order in order
SELECT a.id, a.status_from, a.status_to, a.retry_count, a.last_error, a.idempotency_key, a.trace_id,
    a.broker_order_id, a.worker_id, a.note, a.created_at
FROM outbox_orders o
CROSS JOIN outbox_audit a INDEXED BY idx_audit_order ON a.outbox_id = o.id
WHERE o.idempotency_key = ?1 AND a.id > ?2
ORDER BY a.id
LIMIT ?3
