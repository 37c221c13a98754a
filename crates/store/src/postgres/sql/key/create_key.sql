-- role: key_keeper
-- Inserts an API key and returns it.
INSERT INTO posthaste.api_keys (name, role, key_hash, created_at)
VALUES ($1::text, $2::text, $3::bytea, $4::timestamptz)
RETURNING id, name, role, created_at, last_used_at, revoked_at
