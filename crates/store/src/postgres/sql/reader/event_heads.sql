-- role: viewer
-- Events below $1, newest first, of at most $4 that are looked at, without their payloads, which may be long.
-- index: events_pkey. The index over event_type knows no order by id: it would sort all of a type's history.
-- planner: two limits. Rows keep the order of the scan; nothing outside sorts.
SELECT {event_head}
FROM (
    SELECT e.* FROM (SELECT e.* FROM posthaste.events e WHERE e.id < $1::bigint ORDER BY e.id DESC LIMIT 10000) e
    LIMIT (SELECT $4::bigint)
) e
WHERE $2::text IS NULL OR e.event_type = $2::text
LIMIT $3::bigint
