-- role: key_keeper
-- Inserts a session. Repeating the call with the same token has no effect.
INSERT INTO posthaste.sessions (token_hash, key_hash, created_at, ends_at)
VALUES ($1::bytea, $2::bytea, $3::timestamptz, $4::timestamptz)
ON CONFLICT DO NOTHING
