-- role: key_keeper
-- index: idx_session_end
DELETE FROM sessions WHERE ends_at <= ?1
