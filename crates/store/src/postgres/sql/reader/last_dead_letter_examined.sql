-- role: viewer
-- Where a look at $3 letters below $1, of one subscription or of all, ends; nothing if there are fewer.
-- index: dead_letters_pkey, or idx_dead_subscription.
SELECT CASE WHEN $2::bigint IS NULL
    THEN (SELECT d.id
        FROM (SELECT d.id FROM posthaste.dead_letters d WHERE d.id < $1::bigint ORDER BY d.id DESC LIMIT 10000) d
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    ELSE (SELECT d.id
        FROM (
            SELECT d.id FROM posthaste.dead_letters d WHERE (d.subscription_id, d.id) >= ($2::bigint, 0) AND (d.subscription_id, d.id) < ($2::bigint, $1::bigint)
            ORDER BY d.subscription_id DESC, d.id DESC LIMIT 10000
        ) d
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    END
