-- role: viewer
-- Returns the id of the last of $2 orders below $1; no row if there are fewer.
-- index: outbox_orders_pkey.
SELECT o.id
FROM (SELECT o.id FROM posthaste.outbox_orders o WHERE o.id < $1::bigint ORDER BY o.id DESC LIMIT 10000) o
OFFSET (SELECT $2::bigint - 1) LIMIT 1
