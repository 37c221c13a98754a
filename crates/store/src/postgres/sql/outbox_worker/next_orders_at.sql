-- role: outbox_worker
-- Returns whether orders are queued, and when the next failed order is due.
-- index: idx_order_status_next, the first entry of each status. Not EXISTS, which ignores the ORDER BY and then does
-- not use the index.
SELECT
    (
        SELECT true FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('queued', '-infinity')
            AND (o.status, o.next_attempt_at) <= ('queued', 'infinity')
        ORDER BY o.status, o.next_attempt_at
        LIMIT 1
    ) IS NOT NULL AS has_queued,
    (
        SELECT o.next_attempt_at FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('failed', '-infinity')
            AND (o.status, o.next_attempt_at) <= ('failed', 'infinity')
        ORDER BY o.status, o.next_attempt_at
        LIMIT 1
    ) AS failed_at
