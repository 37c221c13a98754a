-- role: viewer
-- Returns the id of the last of $2 events below $1; no row if there are fewer.
-- index: events_pkey.
SELECT e.id
FROM (SELECT e.id FROM posthaste.events e WHERE e.id < $1::bigint ORDER BY e.id DESC LIMIT 10000) e
OFFSET (SELECT $2::bigint - 1) LIMIT 1
