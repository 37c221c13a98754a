-- role: viewer
-- Returns the next 10,000 events after ?1, without payloads, and whether each is still queued for routing.
-- index: primary keys of events and routing_queue
SELECT e.id, e.event_type, e.tenant, e.attributes, e.created_at,
    EXISTS (SELECT 1 FROM routing_queue q WHERE q.event_id = e.id) AS is_queued
FROM events e WHERE e.id > ?1 ORDER BY e.id LIMIT 10000
