-- role: viewer
-- Events from the instant $3 back to $2, the latest first, of at most $6 that are looked at and those of the same
-- instant as the last of them; of $3 itself only what is below $1, where the page before ended. Without their payloads.
-- index: idx_event_created_at, backwards. It knows no order of ids within an instant: ties are read whole and sorted
-- here. As many events share one as were stored by one statement or transaction.
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
ORDER BY e.created_at DESC, e.id DESC
LIMIT $5::bigint
