-- role: outbox_worker
-- index: the ledger's key
UPDATE idempo_ledger SET result_digest = ?2, broker_order_id = ?3 WHERE idempotency_key = ?1
