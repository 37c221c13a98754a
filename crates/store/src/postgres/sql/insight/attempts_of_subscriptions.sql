-- role: viewer
-- Returns the attempt counts of each subscription in $1, for the intervals that start at $2 or later.
-- index: subscription_health_pkey; at most $3 intervals per subscription, which is how many are kept.
SELECT h.subscription_id, h.failed,
    h.within_5ms, h.within_10ms, h.within_20ms, h.within_50ms, h.within_100ms, h.within_200ms,
    h.within_500ms, h.within_1s, h.within_2s, h.within_5s, h.within_10s, h.beyond_10s,
    h.last_error_code, h.last_error_at
FROM unnest((SELECT $1::bigint[])) AS asked (subscription_id)
CROSS JOIN LATERAL (
    SELECT h.* FROM posthaste.subscription_health h
    WHERE h.subscription_id = asked.subscription_id AND h.interval_start >= $2::timestamptz
    ORDER BY h.subscription_id, h.interval_start
    LIMIT (SELECT $3::integer)
) h
