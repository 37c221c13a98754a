-- role: viewer
-- Returns one subscription, without its secrets.
-- index: subscriptions_pkey.
SELECT {subscription}
FROM posthaste.subscriptions s WHERE s.id = $1::bigint
