-- role: key_keeper
-- Inserts an API key and returns it.
-- index: none
INSERT INTO api_keys (name, role, key_hash, created_at) VALUES (?1, ?2, ?3, ?4)
RETURNING id, name, role, created_at, last_used_at, revoked_at
