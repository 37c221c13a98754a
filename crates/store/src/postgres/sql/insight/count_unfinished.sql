-- role: viewer
-- How many sagas each subscription in $1 has in every state that is not an end, no number above $2.
-- index: idx_saga_subscription_due (its predicate stands here literally). See count_in_flight.sql, where the same look
-- is made for one state, for why it is written so.
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
