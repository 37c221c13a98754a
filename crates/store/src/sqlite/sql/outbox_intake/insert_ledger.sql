-- role: outbox_writer
-- Inserts the ledger row of a new order.
-- index: primary key of idempo_ledger, for the conflict only
INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at) VALUES (?1, ?2, ?3)
ON CONFLICT (idempotency_key) DO NOTHING
