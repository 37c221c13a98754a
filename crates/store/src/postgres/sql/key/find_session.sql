-- role: key_keeper
-- index: sessions_pkey.
SELECT s.key_hash FROM posthaste.sessions s
WHERE s.token_hash = $1::bytea AND s.ends_at > $2::timestamptz AND s.ends_at <= $3::timestamptz
