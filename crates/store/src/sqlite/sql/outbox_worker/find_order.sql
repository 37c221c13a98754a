-- role: outbox_worker
-- Returns one order with the token of its claim.
-- index: primary key of outbox_orders
SELECT id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, result_json, maybe_executed, created_at, updated_at,
    lease_token
FROM outbox_orders WHERE id = ?1
