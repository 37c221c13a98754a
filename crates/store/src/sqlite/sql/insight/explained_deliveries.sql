-- role: viewer
-- Returns the sagas of an event, oldest first, each with its dead letter and the saga that was created from that dead
-- letter.
-- index: idx_saga_event, primary key of events, idx_dead_saga, uniq_saga_requeued_from
SELECT g.id, g.event_id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at,
    coalesce((SELECT e.event_type FROM events e WHERE e.id = g.event_id), '') AS event_type,
    (SELECT e.tenant FROM events e WHERE e.id = g.event_id) AS tenant,
    (SELECT d.id FROM dead_letters d WHERE d.saga_id = g.id LIMIT 1) AS letter_id,
    (SELECT again.id FROM dead_letters d CROSS JOIN webhook_delivery_sagas again ON again.requeued_from = d.id
        WHERE d.saga_id = g.id LIMIT 1) AS requeued_as
FROM webhook_delivery_sagas g INDEXED BY idx_saga_event
WHERE g.event_id = ?1 ORDER BY g.id LIMIT ?2
