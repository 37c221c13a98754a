-- role: key_keeper
-- Deletes one session.
-- index: primary key of sessions
DELETE FROM sessions WHERE token_hash = ?1
