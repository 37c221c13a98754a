-- role: job_worker
-- Returns one event with its payload.
-- index: primary key of events
SELECT id, external_event_id, event_type, payload, correlation_id, traceparent, created_at
FROM events WHERE id = ?1
