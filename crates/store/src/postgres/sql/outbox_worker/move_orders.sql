-- role: outbox_worker
-- Writes the new states of orders, each conditional on the state that the decision was based on, and receipts to the
-- ledger. A trigger writes the audit.
-- index: outbox_orders_pkey, idempo_ledger_pkey.
-- planner: status in a CASE, array from a subselect. Here the status is `status || ''`, which no index serves either.
-- A NULL in last_error or in a receipt leaves the column unchanged.
WITH decided AS MATERIALIZED (
    SELECT * FROM unnest((SELECT $1::bigint[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::integer[]),
            (SELECT $5::timestamptz[]), (SELECT $6::text[]), (SELECT $7::boolean[]), (SELECT $8::text[]),
            (SELECT $9::text[]), (SELECT $10::text[]), (SELECT $11::json[]))
        AS d (id, status_from, status, retry_count, next_attempt_at, last_error, maybe_executed, note, broker_order_id,
            result_digest, result_json)
), moved AS (
    UPDATE posthaste.outbox_orders o
    SET status = d.status, retry_count = d.retry_count, next_attempt_at = d.next_attempt_at,
        last_error = coalesce(d.last_error, o.last_error), maybe_executed = d.maybe_executed, note = d.note,
        broker_order_id = coalesce(d.broker_order_id, o.broker_order_id),
        result_digest = coalesce(d.result_digest, o.result_digest),
        result_json = CASE WHEN d.result_json IS NULL THEN o.result_json ELSE d.result_json END,
        lease_token = CASE WHEN $12::boolean THEN NULL ELSE o.lease_token END,
        updated_at = $13::timestamptz
    FROM decided d
    WHERE o.id = d.id AND o.status || '' = d.status_from
    RETURNING o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id,
        o.broker_order_id,
    o.request_digest, o.result_digest, o.result_json, o.maybe_executed, o.created_at, o.updated_at
), noted AS (
    UPDATE posthaste.idempo_ledger l
    SET result_digest = moved.result_digest, broker_order_id = moved.broker_order_id
    FROM moved
    WHERE l.idempotency_key = moved.idempotency_key AND moved.result_digest IS NOT NULL
)
SELECT * FROM moved
