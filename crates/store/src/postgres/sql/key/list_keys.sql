-- role: key_keeper
-- Returns all keys. They are few, because people create them.
-- index: api_keys_pkey.
SELECT k.id, k.name, k.role, k.tenant, k.created_at, k.last_used_at, k.revoked_at
FROM posthaste.api_keys k ORDER BY k.id
