-- role: viewer
-- Returns the newest 10,000 orders, newest first, each with its ledger row and its latest audit row.
-- index: primary keys of outbox_orders (backwards) and idempo_ledger, idx_audit_order
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.last_error, o.request_digest, o.result_digest,
    o.broker_order_id,
    l.request_digest AS ledger_request_digest, l.result_digest AS ledger_result_digest,
    l.broker_order_id AS ledger_broker_order_id,
    a.status_to AS audit_status, a.retry_count AS audit_retry_count, a.last_error AS audit_last_error
FROM outbox_orders o
LEFT JOIN idempo_ledger l ON l.idempotency_key = o.idempotency_key
LEFT JOIN outbox_audit a ON a.id = (
    SELECT b.id FROM outbox_audit b INDEXED BY idx_audit_order WHERE b.outbox_id = o.id ORDER BY b.id DESC LIMIT 1)
WHERE o.id > 0 ORDER BY o.id DESC LIMIT 10000
