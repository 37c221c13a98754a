-- role: saga_orchestrator
-- How many sagas of each subscription in $1 are in progress, whoever started them: one row for each, in the order
-- asked, and no number above $2.
-- index: idx_saga_subscription_due (its predicate stands here literally).
-- Each look walks the index within one subscription and stops at $2, so neither history nor what waits is read. The
-- state comes out of a subselect that OFFSET keeps apart (VALUES of a single row would become a constant), the look is a
-- scalar subselect, and the subscription an array of one: see find_due_subscriptions.sql. The order matters to nobody, and
-- the limit stands in a subselect so that it is not known when planning: else the planner, with statistics that know of
-- few in progress, takes a bitmap, which gathers all that a subscription has before it stops at $2.
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
