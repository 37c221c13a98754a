-- role: key_keeper
-- index: api_keys_pkey. Keys are few: people make them.
SELECT k.id, k.name, k.role, k.created_at, k.last_used_at, k.revoked_at FROM posthaste.api_keys k ORDER BY k.id
