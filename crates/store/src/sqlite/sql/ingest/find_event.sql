-- role: event_ingest_writer
-- index: uniq_event_external_id
-- Asked only after a conflict: most events are new.
SELECT id FROM events WHERE external_event_id = ?1
