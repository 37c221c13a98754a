-- role: viewer
-- Returns the latest dead letter of each subscription in $1 that has one.
-- index: idx_dead_subscription, its last entry per subscription. The row comparison and the ORDER BY of both columns
-- prevent a scan of all dead letters by primary key for a subscription that has none.
SELECT asked.subscription_id, letter.final_error_code, letter.failed_at
FROM unnest((SELECT $1::bigint[])) AS asked (subscription_id)
CROSS JOIN LATERAL (
    SELECT d.final_error_code, d.failed_at FROM posthaste.dead_letters d
    WHERE (d.subscription_id, d.id) >= (asked.subscription_id, 0)
        AND (d.subscription_id, d.id) <= (asked.subscription_id, 9223372036854775807)
    ORDER BY d.subscription_id DESC, d.id DESC LIMIT 1
) letter
