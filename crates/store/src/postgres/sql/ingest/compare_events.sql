-- role: event_ingest_writer
-- The events behind external ids that were there already, and whether they have the given content: the owner's function
-- reads the payloads, which this role may not. A statement of its own: the rows that an insert ran into are not in
-- that insert's snapshot.
-- index: uniq_event_external_id.
SELECT c.place, c.event_id, c.is_same
FROM posthaste.compare_events((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::json[])) c
