-- role: outbox_worker
-- Counts the orders that are being sent.
-- index: idx_order_status_next, one entry per order in flight. With the ORDER BY and the LIMIT the planner has no
-- reason to read the table, regardless of its statistics.
SELECT count(*)
FROM (
    SELECT FROM posthaste.outbox_orders o
    WHERE (o.status, o.next_attempt_at) >= ('sending', '-infinity')
        AND (o.status, o.next_attempt_at) <= ('sending', 'infinity')
    ORDER BY o.status, o.next_attempt_at
    LIMIT 10000
) few
