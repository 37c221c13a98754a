-- role: viewer
-- Returns the transitions of an order after $2, oldest first.
-- index: uniq_order_idempotency_key, idx_audit_order. The ORDER BY has both columns of the index; otherwise the planner
-- may scan all audit rows by primary key to find those of one order.
SELECT a.id, a.status_from, a.status_to, a.retry_count, a.last_error, a.idempotency_key, a.trace_id, a.broker_order_id,
    a.worker_id, a.note, a.created_at
FROM posthaste.outbox_audit a
WHERE a.outbox_id = (SELECT o.id FROM posthaste.outbox_orders o WHERE o.idempotency_key = $1::text)
    AND a.id > $2::bigint
ORDER BY a.outbox_id, a.id
LIMIT $3::bigint
