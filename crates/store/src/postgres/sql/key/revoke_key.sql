-- role: key_keeper
-- Revokes a key and returns it; returns no row if the key does not exist or is already revoked.
-- index: api_keys_pkey.
UPDATE posthaste.api_keys k SET revoked_at = $2::timestamptz
WHERE k.id = $1::bigint AND k.revoked_at IS NULL
RETURNING k.id, k.name, k.role, k.tenant, k.created_at, k.last_used_at, k.revoked_at
