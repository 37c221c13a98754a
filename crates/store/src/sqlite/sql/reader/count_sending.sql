-- role: viewer
-- index: idx_order_status_next, over what is being sent
SELECT count(*) FROM outbox_orders INDEXED BY idx_order_status_next WHERE status = 'sending'
