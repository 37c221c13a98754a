-- role: key_keeper
-- Deletes all sessions of a key except the ?2 that end last.
-- index: idx_session_key, then the primary key of sessions
DELETE FROM sessions WHERE token_hash IN (
    SELECT token_hash FROM sessions WHERE key_hash = ?1 ORDER BY ends_at DESC LIMIT -1 OFFSET ?2)
