-- role: key_keeper
-- index: idx_session_end.
DELETE FROM posthaste.sessions s WHERE s.ends_at <= $1::timestamptz
