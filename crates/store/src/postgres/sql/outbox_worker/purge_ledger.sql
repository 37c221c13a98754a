-- role: outbox_worker
-- Deletes expired ledger rows whose order is finished or does not exist.
-- index: idx_ledger_expires_at, uniq_order_idempotency_key, idempo_ledger_pkey.
-- The order is looked up in a scalar subselect, which cannot become a join with all orders.
DELETE FROM posthaste.idempo_ledger l
WHERE l.idempotency_key = ANY (ARRAY(
    SELECT few.idempotency_key
    FROM (
        SELECT l.idempotency_key FROM posthaste.idempo_ledger l
        WHERE l.expires_at < $1::timestamptz
            AND coalesce((
                SELECT o.status FROM posthaste.outbox_orders o WHERE o.idempotency_key = l.idempotency_key
            ), 'dead') IN ('sent', 'dead')
        ORDER BY l.expires_at
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ) few
    LIMIT $2::integer))
RETURNING 1
