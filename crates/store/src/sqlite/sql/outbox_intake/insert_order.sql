-- role: outbox_writer
-- Inserts an order unless its idempotency key exists.
-- index: uniq_order_idempotency_key, for the conflict only
INSERT INTO outbox_orders
    (idempotency_key, request_json, request_digest, trace_id, next_attempt_at, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5)
ON CONFLICT (idempotency_key) DO NOTHING
