-- role: viewer
-- Orders below $1, newest first, of at most $4 that are looked at, without the broker's answers, which may be long.
-- index: outbox_orders_pkey. The index over the status knows no order by id.
-- planner: two limits. Rows keep the order of the scan; nothing outside sorts.
SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id, o.broker_order_id,
    o.request_digest, o.result_digest, NULL::json AS result_json, o.maybe_executed, o.created_at, o.updated_at
FROM (
    SELECT o.* FROM (SELECT o.* FROM posthaste.outbox_orders o WHERE o.id < $1::bigint ORDER BY o.id DESC LIMIT 10000) o
    LIMIT (SELECT $4::bigint)
) o
WHERE $2::text IS NULL OR o.status = $2::text
LIMIT $3::bigint
