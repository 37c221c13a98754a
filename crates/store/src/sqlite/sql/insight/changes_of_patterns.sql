-- role: viewer
-- Returns all changes of every subscription that has ever had one of the patterns ?1, an array of pairs of tenant and
-- pattern, at most ?2 rows. Every subscription has a change, so more than ?2 subscriptions are never needed.
-- index: primary key of subscription_patterns, idx_subscription_change. Its order is that of the changes of each
-- subscription; sorting would read the changes that the limit omits.
SELECT c.subscription_id, c.tenant, coalesce(c.event_types, json_array(c.event_type)) AS event_types,
    c.filter, c.active, c.verified, c.deleted_at IS NOT NULL AS is_deleted, c.changed_at
FROM (
    SELECT DISTINCT p.subscription_id
    FROM json_each(?1) AS asked
    CROSS JOIN subscription_patterns p ON p.tenant = asked.value ->> 0 AND p.pattern = asked.value ->> 1
    LIMIT ?2
) few
CROSS JOIN subscription_changes c INDEXED BY idx_subscription_change ON c.subscription_id = few.subscription_id
LIMIT ?2
