-- role: viewer
-- Returns the orders below $1 that match the filter, newest first, examining at most $4. The broker's responses are
-- omitted, since they may be large.
-- index: outbox_orders_pkey. The index on the status is not in id order.
-- planner: two limits. Rows keep the order of the scan; there is no outer sort.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id, o.broker_order_id,
    o.request_digest, o.result_digest, NULL::json AS result_json, o.maybe_executed, o.created_at, o.updated_at
FROM (
    SELECT o.* FROM (SELECT o.* FROM posthaste.outbox_orders o WHERE o.id < $1::bigint ORDER BY o.id DESC LIMIT 10000) o
    LIMIT (SELECT $4::bigint)
) o
WHERE $2::text IS NULL OR o.status = $2::text
LIMIT $3::bigint
