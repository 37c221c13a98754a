-- role: outbox_worker
-- When the next orders are due, those that wait for a sender and those that failed.
-- index: idx_order_status_next; the first entry of each.
SELECT
    (
        SELECT o.next_attempt_at FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('queued', '-infinity') AND (o.status, o.next_attempt_at) <= ('queued', 'infinity')
        ORDER BY o.status, o.next_attempt_at
        LIMIT 1
    ) AS queued_at,
    (
        SELECT o.next_attempt_at FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('failed', '-infinity') AND (o.status, o.next_attempt_at) <= ('failed', 'infinity')
        ORDER BY o.status, o.next_attempt_at
        LIMIT 1
    ) AS failed_at
