-- role: viewer
-- Counts the sagas that were requeued from the dead letters $1 to $2 by state: examined, delivered, waiting,
-- dead-lettered. Also returns the last dead letter examined. Examines 500 rows; the caller continues after the last
-- row.
-- index: uniq_saga_requeued_from; events_pkey for the type.
-- planner: single bound, literal LIMIT. Rows after $2 are examined but not returned.
SELECT count(*) FILTER (WHERE made.is_meant) AS looked_at,
    count(*) FILTER (WHERE made.fits AND made.status = 'Completed') AS delivered,
    count(*) FILTER (WHERE made.fits AND made.status IN ('Pending', 'InProgress', 'PendingRetry')) AS waiting,
    count(*) FILTER (WHERE made.fits AND made.status = 'DeadLettered') AS given_up,
    max(made.requeued_from) FILTER (WHERE made.is_meant) AS reached
FROM (
    SELECT g.status, g.requeued_from, g.requeued_from <= $2::bigint AS is_meant,
        g.requeued_from <= $2::bigint AND g.created_at >= $3::timestamptz
        AND ($4::bigint IS NULL OR g.subscription_id = $4::bigint)
        AND ($5::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = g.event_id) = $5::text) AS
            fits
    FROM (
        SELECT g.* FROM (
            SELECT g.status, g.requeued_from, g.created_at, g.subscription_id, g.event_id
            FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from >= $1::bigint
            ORDER BY g.requeued_from LIMIT 10000
        ) g
        LIMIT (SELECT 500::bigint)
    ) g
) made
