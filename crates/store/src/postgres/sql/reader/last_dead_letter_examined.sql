-- role: viewer
-- Returns the id of the last of $3 dead letters below $1, of subscription $2 or of all subscriptions; NULL if there are
-- fewer.
-- index: dead_letters_pkey or idx_dead_subscription.
SELECT CASE WHEN $2::bigint IS NULL
    THEN (SELECT d.id
        FROM (SELECT d.id FROM posthaste.dead_letters d WHERE d.id < $1::bigint ORDER BY d.id DESC LIMIT 10000) d
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    ELSE (SELECT d.id
        FROM (
            SELECT d.id FROM posthaste.dead_letters d
                WHERE (d.subscription_id, d.id) >= ($2::bigint, 0)
                    AND (d.subscription_id, d.id) < ($2::bigint, $1::bigint)
            ORDER BY d.subscription_id DESC, d.id DESC LIMIT 10000
        ) d
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    END
