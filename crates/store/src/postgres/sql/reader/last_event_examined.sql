-- role: viewer
-- Where a look at 10,000 events below $1 ends; nothing if there are fewer.
-- index: events_pkey.
SELECT e.id FROM posthaste.events e WHERE e.id < $1::bigint ORDER BY e.id DESC OFFSET 9999 LIMIT 1
