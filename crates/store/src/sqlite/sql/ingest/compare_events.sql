-- role: event_ingest_writer
-- index: uniq_event_external_id, in the trigger of the view
-- Run only after a conflict: most events are new. The trigger refuses another content.
INSERT INTO compare_events (external_event_id, event_type, payload) VALUES (?1, ?2, ?3)
