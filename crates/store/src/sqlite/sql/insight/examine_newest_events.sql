-- role: viewer
-- Variant of examine_events.sql for the newest 10,000 events, newest first.
-- index: primary keys of events (backwards) and routing_queue
SELECT e.id, e.event_type, e.tenant, e.attributes, e.created_at,
    EXISTS (SELECT 1 FROM routing_queue q WHERE q.event_id = e.id) AS is_queued
FROM events e WHERE e.id > 0 ORDER BY e.id DESC LIMIT 10000
