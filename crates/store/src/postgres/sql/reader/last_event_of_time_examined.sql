-- role: viewer
-- Where a look at $3 events from the instant $2 back ends; nothing if there are fewer, or if it went past $1. All of
-- the last instant were looked at, so its lowest id is the end.
-- index: idx_event_created_at, backwards; see event_heads_of_time.sql.
WITH look AS MATERIALIZED (
    SELECT e.id, e.created_at FROM posthaste.events e
    WHERE e.created_at <= $2::timestamptz
    ORDER BY e.created_at DESC
    FETCH FIRST ($3::bigint) ROWS WITH TIES
)
SELECT min(look.id)
FROM look
WHERE look.created_at = (SELECT min(whole.created_at) FROM look whole)
    AND look.created_at >= $1::timestamptz
    AND (SELECT count(*) FROM look whole) >= $3::bigint
