-- role: outbox_worker
-- Writes the new state of a failed order and returns it.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE outbox_orders
SET status = ?2, retry_count = ?3, next_attempt_at = ?4, last_error = coalesce(?5, last_error),
    maybe_executed = ?6, note = ?7, updated_at = ?8
WHERE id = ?1 AND +status = 'failed'
RETURNING id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, result_json, maybe_executed, created_at, updated_at
