-- role: viewer
-- Every transition of an order, in order.
-- index: uniq_order_idempotency_key, idx_audit_order.
SELECT a.id, a.status_from, a.status_to, a.retry_count, a.last_error, a.idempotency_key, a.trace_id, a.broker_order_id,
    a.worker_id, a.note, a.created_at
FROM posthaste.outbox_audit a
WHERE a.outbox_id = (SELECT o.id FROM posthaste.outbox_orders o WHERE o.idempotency_key = $1::text)
ORDER BY a.id
