-- role: viewer
-- What the counters of $3 counted since $2 in intervals of $1 seconds; the buckets of latencies are summed up, and stand
-- at $2. The rest of the table is not returned: any login may add to it.
-- index: rollups_pkey; an interval has one row for each counter that moved in it.
SELECT r.interval_start, r.counter, r.amount FROM posthaste.rollups r
WHERE r.width_s = $1::integer AND r.interval_start >= $2::timestamptz AND NOT starts_with(r.counter, 'latency_')
    AND r.counter = ANY ((SELECT $3::text[])::text[])
UNION ALL
SELECT $2::timestamptz, r.counter, sum(r.amount)::bigint FROM posthaste.rollups r
WHERE r.width_s = $1::integer AND r.interval_start >= $2::timestamptz AND starts_with(r.counter, 'latency_')
    AND r.counter = ANY ((SELECT $3::text[])::text[])
GROUP BY r.counter
ORDER BY 1, 2
