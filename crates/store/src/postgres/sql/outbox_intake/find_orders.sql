-- role: outbox_writer
-- Returns orders that existed before. This is a separate statement, because the rows that an insert conflicts with are
-- not visible in the snapshot of that insert.
-- index: uniq_order_idempotency_key.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id, o.broker_order_id,
    o.request_digest, o.result_digest, o.result_json, o.maybe_executed, o.created_at, o.updated_at
FROM posthaste.outbox_orders o WHERE o.idempotency_key = ANY ((SELECT $1::text[])::text[])
