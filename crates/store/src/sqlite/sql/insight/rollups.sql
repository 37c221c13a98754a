-- role: viewer
-- Returns the counters ?3 per interval since ?2. Latency buckets are summed over the whole time and returned with
-- interval_start = ?2.
-- index: primary key of rollups; an interval has one row for each counter that changed in it
SELECT r.interval_start, r.counter, r.amount FROM rollups r
WHERE r.width_s = ?1 AND r.interval_start >= ?2 AND r.counter NOT GLOB 'latency_*'
    AND r.counter IN (SELECT asked.value FROM rarray(?3) asked)
UNION ALL
SELECT ?2, r.counter, sum(r.amount) FROM rollups r
WHERE r.width_s = ?1 AND r.interval_start >= ?2 AND r.counter GLOB 'latency_*'
    AND r.counter IN (SELECT asked.value FROM rarray(?3) asked)
GROUP BY r.counter
ORDER BY 1, 2
