-- role: key_keeper
-- index: sessions' key
SELECT key_hash FROM sessions WHERE token_hash = ?1 AND ends_at > ?2 AND ends_at <= ?3
