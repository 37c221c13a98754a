-- role: key_keeper
-- index: sessions' key
DELETE FROM sessions WHERE token_hash = ?1
