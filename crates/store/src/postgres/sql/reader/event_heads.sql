-- role: viewer
-- Events below $1, newest first, of at most $4 that are looked at, with the beginning of their payloads, which may be
-- long: only those that are answered are unpacked for it.
-- index: events_pkey. The look keeps the order it was read in; see deliveries.sql for how it is bounded.
SELECT e.id, e.external_event_id, e.event_type, left(e.payload::text, 60) AS payload_head, e.created_at
FROM (
    SELECT e.* FROM (SELECT e.* FROM posthaste.events e WHERE e.id < $1::bigint ORDER BY e.id DESC LIMIT 10000) e
    LIMIT (SELECT $4::bigint)
) e
WHERE $2::text IS NULL OR e.event_type = $2::text
LIMIT $3::bigint
