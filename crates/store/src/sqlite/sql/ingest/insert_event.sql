-- role: event_ingest_writer
-- index: uniq_event_external_id, for the conflict alone.
-- One row: what is left over, and every row of a batch in which some row was refused. No RETURNING,
-- which costs a small table of its own for each row: the connection knows the id it has just given.
INSERT INTO events (external_event_id, event_type, payload, correlation_id, traceparent, created_at)
VALUES (?2, ?3, ?4, ?5, ?6, ?1)
ON CONFLICT (external_event_id) DO NOTHING
