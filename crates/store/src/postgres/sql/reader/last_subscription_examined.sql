-- role: viewer
-- Returns the id of the last of $2 subscriptions below $1; no row if there are fewer.
-- index: subscriptions_pkey.
SELECT s.id
FROM (SELECT s.id FROM posthaste.subscriptions s WHERE s.id < $1::bigint ORDER BY s.id DESC LIMIT 10000) s
OFFSET (SELECT $2::bigint - 1) LIMIT 1
