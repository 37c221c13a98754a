-- role: outbox_writer
-- index: the ledger's key
INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at) VALUES (?1, ?2, ?3)
ON CONFLICT (idempotency_key) DO NOTHING
