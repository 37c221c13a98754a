-- role: viewer
-- Returns events with times from $3 down to $2, latest first, without payloads. Examines at most $6, plus those that
-- share the time of the last one. Of the events at $3 itself, only those with ids below $1 are returned, where the
-- previous page ended.
-- index: idx_event_created_at, backwards. It has no id order within one time: ties are read completely and sorted here.
-- Events share a time if one statement or transaction stored them.
-- planner: single bound.
SELECT {event_head}
FROM (
    SELECT e.* FROM posthaste.events e
    WHERE e.created_at <= $3::timestamptz
    ORDER BY e.created_at DESC
    FETCH FIRST ($6::bigint) ROWS WITH TIES
) e
WHERE e.created_at >= $2::timestamptz
    AND (e.created_at < $3::timestamptz OR e.id < $1::bigint)
    AND ($4::text IS NULL OR e.event_type = $4::text)
    AND ($7::text IS NULL OR e.tenant = $7::text)
ORDER BY e.created_at DESC, e.id DESC
LIMIT $5::bigint
