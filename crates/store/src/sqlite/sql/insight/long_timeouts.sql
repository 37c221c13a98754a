-- role: viewer
-- Returns subscriptions with a timeout longer than ?1 milliseconds, at most 100.
-- index: primary key of subscriptions, backwards. No index contains the timeout, so only the newest ?2 rows are read.
SELECT taken.id, taken.timeout_ms
FROM (
    SELECT s.id, s.timeout_ms, s.deleted_at FROM subscriptions s WHERE s.id > 0 ORDER BY s.id DESC LIMIT ?2
) AS taken
WHERE taken.timeout_ms > ?1 AND taken.deleted_at IS NULL
LIMIT 100
