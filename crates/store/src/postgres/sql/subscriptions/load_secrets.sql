-- role: subscription_admin
-- Returns the secrets of the subscriptions with ids above $1, unless they are deleted.
-- index: subscriptions_pkey.
-- planner: two limits.
SELECT found.*
FROM (
    SELECT s.id, {secrets}
    FROM posthaste.subscriptions s
    WHERE s.id > $1::bigint AND s.deleted_at IS NULL
    ORDER BY s.id
    LIMIT 1000
) AS found
ORDER BY found.id
LIMIT $2::integer
