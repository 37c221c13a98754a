-- role: outbox_worker
-- When the next failed order is due.
-- index: idx_order_status_next; its first entry.
SELECT o.next_attempt_at FROM posthaste.outbox_orders o
WHERE (o.status, o.next_attempt_at) >= ('failed', '-infinity') AND (o.status, o.next_attempt_at) <= ('failed', 'infinity')
ORDER BY o.status, o.next_attempt_at
LIMIT 1
