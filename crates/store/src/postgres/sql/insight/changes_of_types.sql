-- role: viewer
-- Returns all changes of every subscription that has ever had one of the event types $1, at most $2 rows.
-- index: idx_subscription_change_type, idx_subscription_change.
SELECT c.subscription_id, c.event_type, c.active, c.verified, c.deleted_at IS NOT NULL AS is_deleted, c.changed_at
FROM (
    SELECT DISTINCT c.subscription_id
    FROM unnest((SELECT $1::text[])) AS asked (event_type)
    CROSS JOIN LATERAL (
        SELECT c.subscription_id FROM posthaste.subscription_changes c
        WHERE c.event_type = asked.event_type COLLATE "C" ORDER BY c.event_type, c.subscription_id LIMIT 50000
    ) c
) asked
CROSS JOIN LATERAL (
    SELECT c.* FROM posthaste.subscription_changes c
    WHERE c.subscription_id = asked.subscription_id ORDER BY c.subscription_id, c.id LIMIT 50000
) c
LIMIT $2::bigint
