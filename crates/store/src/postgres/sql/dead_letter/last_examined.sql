-- role: dead_letter_operator
-- Where a look at 10,000 letters behind $1 ends; nothing if there are fewer.
-- index: dead_letters_pkey, or idx_dead_subscription.
SELECT CASE WHEN $2::bigint IS NULL
    THEN (SELECT d.id FROM posthaste.dead_letters d WHERE d.id > $1::bigint ORDER BY d.id OFFSET 9999 LIMIT 1)
    ELSE (SELECT d.id FROM posthaste.dead_letters d
        WHERE d.subscription_id = $2::bigint AND d.id > $1::bigint ORDER BY d.id OFFSET 9999 LIMIT 1)
    END
