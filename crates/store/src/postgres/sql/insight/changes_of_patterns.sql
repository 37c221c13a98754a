-- role: viewer
-- Returns all changes of every subscription of the tenants $1 that has ever had one of the patterns $2 (pairs of equal
-- index), at most $3 rows.
-- index: subscription_patterns_pkey, idx_subscription_change.
SELECT c.subscription_id, c.tenant, coalesce(c.event_types, ARRAY[c.event_type]) AS event_types, c.filter, c.active,
    c.verified, c.deleted_at IS NOT NULL AS is_deleted, c.changed_at
FROM (
    SELECT DISTINCT p.subscription_id
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[])) AS asked (tenant, pattern)
    CROSS JOIN LATERAL (
        SELECT p.subscription_id FROM posthaste.subscription_patterns p
        WHERE p.tenant = asked.tenant COLLATE "C" AND p.pattern = asked.pattern COLLATE "C"
        ORDER BY p.tenant, p.pattern, p.subscription_id
        LIMIT 50000
    ) p
) asked
CROSS JOIN LATERAL (
    SELECT c.* FROM posthaste.subscription_changes c
    WHERE c.subscription_id = asked.subscription_id ORDER BY c.subscription_id, c.id LIMIT 50000
) c
LIMIT $3::bigint
