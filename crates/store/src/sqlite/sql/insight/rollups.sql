-- role: viewer
-- index: rollups' key; an interval has one row for each counter that moved in it
-- What the counters of ?3 counted; the buckets of latencies are summed up, and stand at ?2.
SELECT r.interval_start, r.counter, r.amount FROM rollups r
WHERE r.width_s = ?1 AND r.interval_start >= ?2 AND r.counter NOT GLOB 'latency_*'
    AND r.counter IN (SELECT asked.value FROM rarray(?3) asked)
UNION ALL
SELECT ?2, r.counter, sum(r.amount) FROM rollups r
WHERE r.width_s = ?1 AND r.interval_start >= ?2 AND r.counter GLOB 'latency_*'
    AND r.counter IN (SELECT asked.value FROM rarray(?3) asked)
GROUP BY r.counter
ORDER BY 1, 2
