-- role: viewer
-- index: idx_order_status_next; as many entries as are being sent. The order and the bound leave the planner no reason
-- to read the table, whatever its statistics say.
SELECT count(*)
FROM (
    SELECT FROM posthaste.outbox_orders o
    WHERE (o.status, o.next_attempt_at) >= ('sending', '-infinity') AND (o.status, o.next_attempt_at) <= ('sending', 'infinity')
    ORDER BY o.status, o.next_attempt_at
    LIMIT 10000
) few
