-- role: key_keeper
-- Returns the key hash of the session with the token hash ?1 if it ends after ?2 and not after ?3.
-- index: primary key of sessions
SELECT key_hash FROM sessions WHERE token_hash = ?1 AND ends_at > ?2 AND ends_at <= ?3
