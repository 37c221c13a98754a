-- role: viewer
-- Where a look at 10,000 subscriptions below $1 ends; nothing if there are fewer.
-- index: subscriptions_pkey.
SELECT s.id FROM posthaste.subscriptions s WHERE s.id < $1::bigint ORDER BY s.id DESC OFFSET 9999 LIMIT 1
