-- role: viewer
-- The same as events_of_time.sql with the beginning of the payloads. It is taken of the rows that are answered, outside
-- of the sort: inside, every payload that was looked at would be unpacked.
-- index: idx_event_created_at, backwards.
SELECT e.id, e.external_event_id, e.event_type, left(e.payload::text, 60) AS payload_head, e.created_at
FROM (
    SELECT e.* FROM (
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
) e
