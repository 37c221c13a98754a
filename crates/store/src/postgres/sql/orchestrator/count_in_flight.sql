-- role: saga_orchestrator
-- Counts the sagas in progress of each subscription in $1, up to $2: one row for each, in the order of $1.
-- index: idx_saga_subscription_due.
-- planner: literal predicate, state from VALUES, scalar lookup, array of one, unknown LIMIT. The state comes from a
-- subselect with OFFSET 0, since VALUES of one row would become a constant.
-- Each lookup reads the index within one subscription and stops at $2, so it reads neither history nor backlog.
SELECT (
    SELECT count(*)
    FROM (
        SELECT FROM posthaste.webhook_delivery_sagas g
        WHERE g.subscription_id = ANY (ARRAY[asked.subscription_id]) AND g.status = running.status
            AND g.status <> 'Completed' AND g.status <> 'DeadLettered'
        ORDER BY g.subscription_id, g.status, g.next_attempt_at
        LIMIT (SELECT $2::integer)
    ) few
)
FROM unnest((SELECT $1::bigint[])) WITH ORDINALITY AS asked (subscription_id, place)
CROSS JOIN (SELECT 'InProgress'::posthaste.saga_status AS status OFFSET 0) running
ORDER BY asked.place
