-- role: outbox_worker
-- Returns and locks orders that were claimed before $1, or after $3, because the clock was set back. Skips an order
-- that is being settled.
-- index: idx_order_status_next; reads one row per order in flight.
SELECT few.*
FROM (
    SELECT o.id, o.idempotency_key, o.status, o.retry_count, o.next_attempt_at, o.last_error, o.trace_id,
        o.broker_order_id,
    o.request_digest, o.result_digest, o.result_json, o.maybe_executed, o.created_at, o.updated_at, o.lease_token
    FROM posthaste.outbox_orders o
    WHERE (o.status, o.next_attempt_at) >= ('sending', '-infinity')
        AND (o.status, o.next_attempt_at) <= ('sending', 'infinity')
        AND (o.updated_at < $1::timestamptz OR o.updated_at > $3::timestamptz)
    ORDER BY o.status, o.next_attempt_at
    LIMIT 1000
    FOR NO KEY UPDATE SKIP LOCKED
) few
LIMIT $2::integer
