-- role: key_keeper
-- Returns the key with the hash ?1 unless it is revoked.
-- index: uniq_key_hash
SELECT id, name, role, tenant, created_at, last_used_at, revoked_at
FROM api_keys WHERE key_hash = ?1 AND revoked_at IS NULL
