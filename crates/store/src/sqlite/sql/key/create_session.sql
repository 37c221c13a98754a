-- role: key_keeper
-- Inserts a session. Repeating the call with the same token has no effect.
-- index: primary key of sessions, for the conflict only
INSERT INTO sessions (token_hash, key_hash, created_at, ends_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING
