-- role: key_keeper
-- Sets last_used_at at most once a minute, so that a busy key does not cost an update per request.
-- index: primary key of api_keys
UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at <= ?3)
