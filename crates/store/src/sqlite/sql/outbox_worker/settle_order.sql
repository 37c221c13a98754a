-- role: outbox_worker
-- Writes the outcome of a sent order and returns it. The token stays, so that a repeated report is recognized.
-- index: primary key; the unary + keeps the other columns from selecting an index
UPDATE outbox_orders
SET status = ?2, retry_count = ?3, next_attempt_at = ?4, last_error = coalesce(?5, last_error),
    maybe_executed = ?6, note = ?7, updated_at = ?8, broker_order_id = coalesce(?9, broker_order_id),
    result_digest = coalesce(?10, result_digest), result_json = coalesce(?11, result_json)
WHERE id = ?1 AND +status = 'sending' AND +lease_token = ?12
RETURNING id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, result_json, maybe_executed, created_at, updated_at
