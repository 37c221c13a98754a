-- role: key_keeper
-- A repetition is the same session.
INSERT INTO posthaste.sessions (token_hash, key_hash, created_at, ends_at)
VALUES ($1::bytea, $2::bytea, $3::timestamptz, $4::timestamptz)
ON CONFLICT DO NOTHING
