-- role: job_worker
-- index: events' key
SELECT id, external_event_id, event_type, payload, correlation_id, traceparent, created_at
FROM events WHERE id = ?1
