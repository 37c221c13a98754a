-- role: outbox_worker
-- Returns and locks the orders of a report, each with the token of its claim.
-- index: outbox_orders_pkey.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id, o.broker_order_id,
    o.request_digest, o.result_digest, o.result_json, o.maybe_executed, o.created_at, o.updated_at, o.lease_token
FROM posthaste.outbox_orders o WHERE o.id = ANY ((SELECT $1::bigint[])::bigint[]) FOR NO KEY UPDATE
