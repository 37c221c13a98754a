-- role: event_ingest_writer
-- Returns the id of the event with an external id. Executed only after a conflict, since most events are new.
-- index: uniq_event_external_id
SELECT id FROM events WHERE external_event_id = ?1
