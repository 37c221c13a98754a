-- role: outbox_worker
-- Writes the receipt of an order to the ledger.
-- index: primary key of idempo_ledger
UPDATE idempo_ledger SET result_digest = ?2, broker_order_id = ?3 WHERE idempotency_key = ?1
