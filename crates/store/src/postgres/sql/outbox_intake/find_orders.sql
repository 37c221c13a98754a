-- role: outbox_writer
-- Orders that were there. A statement of its own: what an insert ran into is not in that insert's snapshot.
-- index: uniq_order_idempotency_key.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id, o.broker_order_id,
    o.request_digest, o.result_digest, o.result_json, o.maybe_executed, o.created_at, o.updated_at
FROM posthaste.outbox_orders o WHERE o.idempotency_key = ANY ((SELECT $1::text[])::text[])
