-- role: event_ingest_writer
-- Returns the stored events with the external ids $1, and whether their content equals that of the given events. A
-- SECURITY DEFINER function reads the payloads, which this role may not read.
-- This is a separate statement, because the rows that an insert conflicts with are not visible in the snapshot of that
-- insert.
-- index: uniq_event_external_id.
SELECT c.place, c.event_id, c.is_same
FROM posthaste.compare_events((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::json[]),
    (SELECT $4::text[]::json[]), (SELECT $5::text[])) c
