-- role: router_worker
-- index: routing_queue's key
-- A take leaves nothing out between its first and its last id, so that one range is the whole take.
DELETE FROM routing_queue WHERE event_id BETWEEN ?1 AND ?2
