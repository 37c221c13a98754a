-- role: key_keeper
-- Returns the key with the hash $1 unless it is revoked.
-- index: uniq_key_hash.
SELECT k.id, k.name, k.role, k.tenant, k.created_at, k.last_used_at, k.revoked_at FROM posthaste.api_keys k
WHERE k.key_hash = $1::bytea AND k.revoked_at IS NULL
