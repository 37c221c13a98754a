-- role: dead_letter_operator
-- Returns the id of the last of $3 dead letters after $1, of subscription $2 or of all subscriptions; NULL if there are
-- fewer.
-- index: dead_letters_pkey or idx_dead_subscription.
SELECT CASE WHEN $2::bigint IS NULL
    THEN (SELECT d.id
        FROM (SELECT d.id FROM posthaste.dead_letters d WHERE d.id > $1::bigint ORDER BY d.id LIMIT 10000) d
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    ELSE (SELECT d.id
        FROM (
            SELECT d.id FROM posthaste.dead_letters d
            WHERE (d.subscription_id, d.id) > ($2::bigint, $1::bigint)
                AND (d.subscription_id, d.id) <= ($2::bigint, 9223372036854775807)
            ORDER BY d.subscription_id, d.id LIMIT 10000
        ) d
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    END
