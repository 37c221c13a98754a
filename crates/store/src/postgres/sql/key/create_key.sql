-- role: key_keeper
-- Inserts an API key and returns it.
INSERT INTO posthaste.api_keys (name, role, tenant, key_hash, created_at)
VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::timestamptz)
RETURNING id, name, role, tenant, created_at, last_used_at, revoked_at
