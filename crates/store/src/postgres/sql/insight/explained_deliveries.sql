-- role: viewer
-- Returns the sagas of an event, oldest first, each with its dead letter and the saga that was created from that dead
-- letter.
-- index: idx_saga_event; per saga events_pkey, idx_dead_saga, uniq_saga_requeued_from.
SELECT g.id, g.event_id, g.subscription_id, g.status::text, g.attempt_count, g.next_attempt_at, g.final_error_code,
    g.current_job_id, g.requeued_from, g.created_at, g.updated_at,
    coalesce((SELECT e.event_type FROM posthaste.events e WHERE e.id = g.event_id), '') AS event_type,
    (SELECT e.tenant FROM posthaste.events e WHERE e.id = g.event_id) AS tenant,
    g.letter_id,
    (SELECT again.id FROM posthaste.webhook_delivery_sagas again WHERE again.requeued_from = g.letter_id) AS requeued_as
FROM (
    SELECT g.*, (SELECT d.id FROM posthaste.dead_letters d WHERE d.saga_id = g.id LIMIT 1) AS letter_id
    FROM (
        SELECT g.* FROM posthaste.webhook_delivery_sagas g WHERE g.event_id = $1::bigint ORDER BY g.id LIMIT $2::bigint
    ) g
) g
ORDER BY g.id
