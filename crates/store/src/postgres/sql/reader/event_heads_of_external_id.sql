-- role: viewer
-- Returns the event with the external id $2, without its payload, if it is below $1 and matches the filter.
-- index: uniq_event_external_id.
SELECT {event_head}
FROM posthaste.events e
WHERE e.external_event_id = $2::text AND e.id < $1::bigint AND ($3::text IS NULL OR e.event_type = $3::text)
    AND ($6::text IS NULL OR e.tenant = $6::text)
    AND ($4::timestamptz IS NULL OR e.created_at >= $4::timestamptz)
    AND ($5::timestamptz IS NULL OR e.created_at < $5::timestamptz)
