-- role: key_keeper
-- index: api_keys' key, all of it: keys are few
SELECT id, name, role, created_at, last_used_at, revoked_at FROM api_keys ORDER BY id
