-- role: key_keeper
-- Inserts an API key and returns it.
-- index: none
INSERT INTO api_keys (name, role, tenant, key_hash, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
RETURNING id, name, role, tenant, created_at, last_used_at, revoked_at
