-- role: viewer
-- Returns one order with the broker's response.
-- index: uniq_order_idempotency_key
SELECT id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, result_json, maybe_executed, created_at, updated_at
FROM outbox_orders WHERE idempotency_key = ?1
