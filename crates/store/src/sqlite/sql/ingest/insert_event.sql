-- role: event_ingest_writer
-- Inserts one event. Used for the remainder of a batch, and for every row of a batch in which a row was refused.
-- RETURNING is avoided, because it needs an ephemeral table per row, and the connection knows the last inserted id.
-- index: uniq_event_external_id, for the conflict only
INSERT INTO events (external_event_id, event_type, payload, correlation_id, traceparent, tracestate, tenant, attributes,
    created_at)
VALUES (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?1)
ON CONFLICT (external_event_id) DO NOTHING
