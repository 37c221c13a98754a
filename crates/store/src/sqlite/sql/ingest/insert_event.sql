-- role: event_ingest_writer
-- index: uniq_event_external_id, for the conflict alone.
-- One row at a time: a row that a CHECK refuses takes no other with it. No RETURNING, which costs a
-- small table of its own for each row: the connection knows the id of the row it has just made.
INSERT INTO events (external_event_id, event_type, payload, correlation_id, traceparent, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (external_event_id) DO NOTHING
