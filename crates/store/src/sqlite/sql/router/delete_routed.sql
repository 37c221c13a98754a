-- role: router_worker
-- Dequeues the routed events. A batch contains every event between its first and its last id, so one range covers all
-- of them.
-- index: primary key of routing_queue
DELETE FROM routing_queue WHERE event_id BETWEEN ?1 AND ?2
