-- role: viewer
-- Where a look at 10,000 orders below $1 ends; nothing if there are fewer.
-- index: outbox_orders_pkey.
SELECT o.id FROM posthaste.outbox_orders o WHERE o.id < $1::bigint ORDER BY o.id DESC OFFSET 9999 LIMIT 1
