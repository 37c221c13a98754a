-- role: viewer
-- Returns the id of the last of $3 examined events from the time $2 down; NULL if there are fewer, or if the scan went
-- past $1. Events with the last time are all examined, so the lowest id among them is the last.
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
