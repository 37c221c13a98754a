-- role: viewer
-- Counts the sagas of each subscription in $1 in every unfinished state, up to $2.
-- index: idx_saga_subscription_due.
-- planner: as count_in_flight.sql.
SELECT asked.subscription_id, unfinished.status = 'InProgress', (
    SELECT count(*)
    FROM (
        SELECT FROM posthaste.webhook_delivery_sagas g
        WHERE (g.subscription_id, g.status, g.next_attempt_at)
                >= (asked.subscription_id, unfinished.status, '-infinity'::timestamptz)
            AND (g.subscription_id, g.status, g.next_attempt_at)
                <= (asked.subscription_id, unfinished.status, 'infinity'::timestamptz)
            AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
        ORDER BY g.subscription_id, g.status, g.next_attempt_at
        LIMIT (SELECT $2::integer)
    ) few
)
FROM unnest((SELECT $1::bigint[])) AS asked (subscription_id)
CROSS JOIN (VALUES ('Pending'::posthaste.saga_status), ('InProgress'), ('PendingRetry')) AS unfinished (status)
