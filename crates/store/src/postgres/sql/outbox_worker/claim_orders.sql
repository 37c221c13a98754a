-- role: outbox_worker
-- Claims queued orders for one sender, oldest first. A queued order is due regardless of its time: one in the future
-- was stored before the clock was set back.
-- index: idx_order_status_next.
-- planner: materialized claim, row comparison, literal LIMIT, update by ctid.
-- Unlike a claim of jobs, this commit is flushed: after a crash, an order that was sent must not appear unsent.
WITH picked AS MATERIALIZED (
    SELECT few.place
    FROM (
        SELECT o.ctid AS place FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('queued', '-infinity')
            AND (o.status, o.next_attempt_at) <= ('queued', 'infinity')
        ORDER BY o.status, o.next_attempt_at
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED
    ) few
    LIMIT $2::integer
), claimed AS (
    UPDATE posthaste.outbox_orders o
    SET status = 'sending', lease_token = $3::uuid, worker_id = $4::text, note = NULL, updated_at = $1::timestamptz
    WHERE o.ctid = ANY (ARRAY(SELECT p.place FROM picked p)) AND o.status || '' = 'queued'
    RETURNING o.id, o.idempotency_key, o.request_json::text AS request_json, o.request_digest, o.trace_id,
        o.retry_count,
        o.created_at, o.updated_at, o.next_attempt_at
)
SELECT * FROM claimed
