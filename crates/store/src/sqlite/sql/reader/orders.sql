-- role: viewer
-- index: outbox_orders' key, backwards
-- No index has the orders of one status by id; other ones are left out by whoever reads the rows. The broker's
-- answers, which may be long, are not part of a list.
SELECT id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
    request_digest, result_digest, NULL AS result_json, maybe_executed, created_at, updated_at
FROM outbox_orders WHERE id < ?1 ORDER BY id DESC LIMIT ?2
