-- role: router_worker
-- Returns the active and verified subscriptions of the tenant ?1 (none: an empty text) that have one of the patterns
-- ?2, the probes of an event type. Executed once for each distinct pair of tenant and type of a batch. A subscription
-- with several matching patterns is returned several times: removing duplicates here would need a temporary B-tree.
-- index: idx_subscription_pattern, primary key of subscriptions
SELECT s.id, s.filter
FROM rarray(?2) AS probe
CROSS JOIN subscription_patterns p INDEXED BY idx_subscription_pattern
    ON p.tenant = ?1 AND p.pattern = probe.value AND p.current = 1
CROSS JOIN subscriptions s ON s.id = p.subscription_id
WHERE s.active = 1 AND s.verified = 1 AND s.deleted_at IS NULL
