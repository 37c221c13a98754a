-- role: subscription_admin
-- Locks the subscriptions $1 in the order of their ids, so that two calls that store secrets cannot deadlock.
-- index: subscriptions_pkey.
-- planner: array from a subselect.
SELECT s.id
FROM posthaste.subscriptions s
WHERE s.id = ANY ((SELECT $1::bigint[])::bigint[])
ORDER BY s.id
FOR UPDATE
