-- role: viewer
-- Orders below $1, newest first, of at most 10,000 that are looked at.
-- index: outbox_orders_pkey. The index over the status knows no order by id.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id, o.broker_order_id,
    o.request_digest, o.result_digest, o.result_json, o.maybe_executed, o.created_at, o.updated_at
FROM (SELECT o.* FROM posthaste.outbox_orders o WHERE o.id < $1::bigint ORDER BY o.id DESC LIMIT 10000) o
WHERE $2::text IS NULL OR o.status = $2::text
ORDER BY o.id DESC
LIMIT $3::bigint
