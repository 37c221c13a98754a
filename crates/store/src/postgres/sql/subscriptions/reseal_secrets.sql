-- role: subscription_admin
-- Stores the secrets $4 and $5 in the rows that still have the secrets $2 and $3, and returns the ids of these rows.
-- A row with other secrets was rotated or encrypted again in the meantime. An expired previous secret is removed: its
-- value in $5 is NULL. The time of the last change stays as it is, because this is not a change of the subscription.
-- index: subscriptions_pkey.
-- planner: array from a subselect.
UPDATE posthaste.subscriptions s
SET secret = resealed.secret, previous_secret = resealed.previous_secret,
    previous_secret_expires_at =
        CASE WHEN resealed.previous_secret IS NULL THEN NULL ELSE s.previous_secret_expires_at END
FROM unnest((SELECT $1::bigint[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::text[]))
    AS resealed (id, secret_before, previous_secret_before, secret, previous_secret)
WHERE s.id = resealed.id AND s.secret = resealed.secret_before
    AND s.previous_secret IS NOT DISTINCT FROM resealed.previous_secret_before AND s.deleted_at IS NULL
RETURNING s.id
