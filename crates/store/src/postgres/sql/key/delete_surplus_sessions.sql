-- role: key_keeper
-- Deletes all sessions of a key except the $2 that end last.
-- index: idx_session_key, then sessions_pkey.
DELETE FROM posthaste.sessions s WHERE s.token_hash IN (
    SELECT o.token_hash FROM posthaste.sessions o
        WHERE o.key_hash = $1::bytea ORDER BY o.ends_at DESC OFFSET $2::bigint)
