-- role: viewer
-- Returns the events below $1 that match the filter, newest first, examining at most $4. Payloads are omitted, since
-- they may be large.
-- index: events_pkey. The index on event_type is not in id order: using it would sort all events of a type.
-- planner: two limits. Rows keep the order of the scan; there is no outer sort.
SELECT {event_head}
FROM (
    SELECT e.* FROM (SELECT e.* FROM posthaste.events e WHERE e.id < $1::bigint ORDER BY e.id DESC LIMIT 10000) e
    LIMIT (SELECT $4::bigint)
) e
WHERE ($2::text IS NULL OR e.event_type = $2::text) AND ($5::text IS NULL OR e.tenant = $5::text)
LIMIT $3::bigint
