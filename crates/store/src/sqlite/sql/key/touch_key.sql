-- role: key_keeper
-- index: api_keys' key
-- A use within a minute of the one noted is not worth a write.
UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at <= ?3)
