-- role: viewer
-- index: operator_audit's key, backwards
-- Rows that do not match are left out by the reader, so that a page knows how far it read.
SELECT id, created_at, key_id, key_name, client_address, action, object, before, after
FROM operator_audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2
