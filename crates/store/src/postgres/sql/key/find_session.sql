-- role: key_keeper
-- Returns the key hash of the session with the token hash $1 if it ends after $2 and not after $3.
-- index: sessions_pkey.
SELECT s.key_hash FROM posthaste.sessions s
WHERE s.token_hash = $1::bytea AND s.ends_at > $2::timestamptz AND s.ends_at <= $3::timestamptz
