-- role: viewer
-- Returns the next ?2 orders below ?1, newest first, without the broker's responses, which may be large. The caller
-- filters by status: no index has the orders of one status in id order.
-- index: primary key of outbox_orders, backwards
SELECT id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, NULL AS result_json, maybe_executed, created_at, updated_at
FROM outbox_orders WHERE id < ?1 ORDER BY id DESC LIMIT ?2
