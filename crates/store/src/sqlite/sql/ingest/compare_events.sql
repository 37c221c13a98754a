-- role: event_ingest_writer
-- Compares an event with the stored event that has the same external id. The trigger of the view raises an error if the
-- contents differ. Executed only after a conflict, since most events are new.
-- index: uniq_event_external_id, in the trigger of the view
INSERT INTO compare_events (external_event_id, event_type, payload, attributes, tenant) VALUES (?1, ?2, ?3, ?4, ?5)
