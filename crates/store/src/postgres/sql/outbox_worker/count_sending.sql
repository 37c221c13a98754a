-- role: outbox_worker
-- index: idx_order_status_next; as many entries as are being sent.
SELECT count(*) FROM posthaste.outbox_orders o WHERE o.status = 'sending'
