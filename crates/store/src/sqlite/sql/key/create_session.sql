-- role: key_keeper
-- index: none, it adds a row
INSERT INTO sessions (token_hash, key_hash, created_at, ends_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING
