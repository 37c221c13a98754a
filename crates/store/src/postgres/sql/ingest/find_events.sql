-- role: event_ingest_writer
-- The ids behind external ids that were there already. A statement of its own: the rows that an insert
-- ran into are not in that insert's snapshot.
-- index: uniq_event_external_id.
SELECT e.id, e.external_event_id FROM posthaste.events e WHERE e.external_event_id = ANY ((SELECT $1::text[])::text[])
