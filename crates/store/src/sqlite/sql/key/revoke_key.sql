-- role: key_keeper
-- index: api_keys' key
UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL
RETURNING id, name, role, created_at, last_used_at, revoked_at
