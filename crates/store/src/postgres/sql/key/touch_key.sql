-- role: key_keeper
-- Sets last_used_at at most once a minute, so that a busy key does not cost an update per request.
-- index: api_keys_pkey.
UPDATE posthaste.api_keys k SET last_used_at = $2::timestamptz
WHERE k.id = $1::bigint AND (k.last_used_at IS NULL OR k.last_used_at <= $2::timestamptz - interval '1 minute')
