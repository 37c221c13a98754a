-- role: viewer
-- Returns subscriptions with a timeout longer than $1 milliseconds, at most 100.
-- index: primary key of subscriptions, backwards. No index contains the timeout, so only the newest $2 rows are read.
SELECT s.id, s.timeout_ms
FROM (SELECT n.id, n.timeout_ms, n.deleted_at FROM posthaste.subscriptions n ORDER BY n.id DESC LIMIT $2::bigint) s
WHERE s.timeout_ms > $1::bigint AND s.deleted_at IS NULL
LIMIT 100
