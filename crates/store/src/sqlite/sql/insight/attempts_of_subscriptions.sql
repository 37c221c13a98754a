-- role: viewer
-- Returns the attempt counts of the subscriptions ?1, for the intervals that start at ?2 or later.
-- index: primary key of subscription_health; one row per subscription and interval
SELECT h.subscription_id, h.failed,
    h.within_5ms, h.within_10ms, h.within_20ms, h.within_50ms, h.within_100ms, h.within_200ms,
    h.within_500ms, h.within_1s, h.within_2s, h.within_5s, h.within_10s, h.beyond_10s,
    h.last_error_code, h.last_error_at
FROM rarray(?1)
CROSS JOIN subscription_health h ON h.subscription_id = rarray.value AND h.interval_start >= ?2
