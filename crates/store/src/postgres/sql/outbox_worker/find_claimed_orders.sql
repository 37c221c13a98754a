-- role: outbox_worker
-- Returns the orders of a claim whose response was lost, by its token and the time of the claim.
-- index: idx_order_status_next; reads one row per order in flight.
SELECT o.id, o.idempotency_key, o.request_json::text AS request_json, o.request_digest, o.trace_id, o.retry_count,
    o.created_at, o.updated_at, o.next_attempt_at
FROM posthaste.outbox_orders o
WHERE o.status = 'sending' AND o.lease_token = $1::uuid AND o.updated_at = $2::timestamptz
