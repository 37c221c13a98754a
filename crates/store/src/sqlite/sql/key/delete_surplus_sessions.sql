-- role: key_keeper
-- index: idx_session_key, then sessions' key
-- All sessions of a key but the newest ?2.
DELETE FROM sessions WHERE token_hash IN (
    SELECT token_hash FROM sessions WHERE key_hash = ?1 ORDER BY ends_at DESC LIMIT -1 OFFSET ?2)
