-- role: viewer
-- Returns the next 10,000 orders after $1, each with its ledger row and its latest audit row.
-- index: outbox_orders_pkey, idempo_ledger_pkey, idx_audit_order.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.last_error, o.request_digest, o.result_digest,
    o.broker_order_id,
    l.request_digest AS ledger_request_digest, l.result_digest AS ledger_result_digest,
    l.broker_order_id AS ledger_broker_order_id,
    a.status_to AS audit_status, a.retry_count AS audit_retry_count, a.last_error AS audit_last_error
FROM (
    SELECT o.* FROM posthaste.outbox_orders o WHERE o.id > $1::bigint ORDER BY o.id LIMIT 10000
) o
LEFT JOIN LATERAL (
    SELECT l.* FROM posthaste.idempo_ledger l WHERE l.idempotency_key = o.idempotency_key LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT a.* FROM posthaste.outbox_audit a WHERE a.outbox_id = o.id ORDER BY a.outbox_id DESC, a.id DESC LIMIT 1
) a ON true
ORDER BY o.id
