-- role: key_keeper
-- Revokes a key and returns it; returns no row if the key does not exist or is already revoked.
-- index: primary key of api_keys
UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL
RETURNING id, name, role, tenant, created_at, last_used_at, revoked_at
