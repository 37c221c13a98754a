-- role: key_keeper
-- Deletes the sessions that ended by ?1.
-- index: idx_session_end
DELETE FROM sessions WHERE ends_at <= ?1
