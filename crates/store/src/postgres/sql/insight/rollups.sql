-- role: viewer
-- Returns the counters $3 per interval of $1 seconds since $2. Latency buckets are summed over the whole time and
-- returned with interval_start = $2. Other counters are omitted, because any login may add rows to the table.
-- index: rollups_pkey; an interval has one row for each counter that changed in it.
SELECT r.interval_start, r.counter, r.amount FROM posthaste.rollups r
WHERE r.width_s = $1::integer AND r.interval_start >= $2::timestamptz AND NOT starts_with(r.counter, 'latency_')
    AND r.counter = ANY ((SELECT $3::text[])::text[])
UNION ALL
SELECT $2::timestamptz, r.counter, sum(r.amount)::bigint FROM posthaste.rollups r
WHERE r.width_s = $1::integer AND r.interval_start >= $2::timestamptz AND starts_with(r.counter, 'latency_')
    AND r.counter = ANY ((SELECT $3::text[])::text[])
GROUP BY r.counter
ORDER BY 1, 2
