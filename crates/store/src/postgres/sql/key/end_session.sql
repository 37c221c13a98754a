-- role: key_keeper
-- Deletes one session.
-- index: sessions_pkey.
DELETE FROM posthaste.sessions s WHERE s.token_hash = $1::bytea
