-- role: outbox_worker
-- Deletes expired ledger rows whose order is finished or does not exist.
-- index: idx_ledger_expires_at (in order), uniq_order_idempotency_key
DELETE FROM idempo_ledger WHERE idempotency_key IN (
    SELECT l.idempotency_key FROM idempo_ledger l INDEXED BY idx_ledger_expires_at
    WHERE l.expires_at < ?1 AND NOT EXISTS (
        SELECT 1 FROM outbox_orders o
        WHERE o.idempotency_key = l.idempotency_key AND +o.status <> 'sent' AND +o.status <> 'dead')
    ORDER BY l.expires_at
    LIMIT ?2)
