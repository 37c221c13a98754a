-- role: key_keeper
-- Returns all keys. They are few, because people create them.
-- index: primary key of api_keys
SELECT id, name, role, tenant, created_at, last_used_at, revoked_at FROM api_keys ORDER BY id
