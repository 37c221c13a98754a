-- role: viewer
-- Counts the orders that are being sent.
-- index: idx_order_status_next, one entry per order in flight
SELECT count(*) FROM outbox_orders INDEXED BY idx_order_status_next WHERE status = 'sending'
