-- role: viewer
-- What came of the sagas that were made from the letters $1 to $2: those looked at, delivered, waiting, given up. One
-- more than 10,000 is looked at, to tell that there are more.
-- index: uniq_saga_requeued_from, events_pkey for the type. A second bound, or a limit that it cannot know, would let the
-- planner think that few are left, and sort them: what lies behind $2 is looked at and left out.
SELECT count(*) FILTER (WHERE made.is_meant),
    count(*) FILTER (WHERE made.fits AND made.status = 'Completed'),
    count(*) FILTER (WHERE made.fits AND made.status IN ('Pending', 'InProgress', 'PendingRetry')),
    count(*) FILTER (WHERE made.fits AND made.status = 'DeadLettered')
FROM (
    SELECT g.status, g.requeued_from <= $2::bigint AS is_meant,
        g.requeued_from <= $2::bigint AND g.created_at >= $3::timestamptz
        AND ($4::bigint IS NULL OR g.subscription_id = $4::bigint)
        AND ($5::text IS NULL OR (SELECT e.event_type FROM posthaste.events e WHERE e.id = g.event_id) = $5::text) AS fits
    FROM (
        SELECT g.status, g.requeued_from, g.created_at, g.subscription_id, g.event_id
        FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from >= $1::bigint
        ORDER BY g.requeued_from LIMIT 10001
    ) g
) made
