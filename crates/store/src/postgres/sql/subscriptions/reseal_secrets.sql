-- role: subscription_admin
-- Stores secrets that were encrypted again, $6 to $9, in the rows that still have the secrets $2 to $5, and returns the
-- ids of these rows. A row with other secrets was changed in the meantime. An expired secret is removed: its new value
-- is NULL. The time of the last change stays as it is, because this is not a change of the subscription.
-- index: subscriptions_pkey.
-- planner: array from a subselect.
UPDATE posthaste.subscriptions s
SET secret = resealed.secret, previous_secret = resealed.previous_secret, older_secret = resealed.older_secret,
    credentials = resealed.credentials,
    previous_secret_expires_at =
        CASE WHEN resealed.previous_secret IS NULL THEN NULL ELSE s.previous_secret_expires_at END,
    older_secret_expires_at = CASE WHEN resealed.older_secret IS NULL THEN NULL ELSE s.older_secret_expires_at END
FROM unnest((SELECT $1::bigint[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::text[]),
    (SELECT $6::text[]), (SELECT $7::text[]), (SELECT $8::text[]), (SELECT $9::text[]))
    AS resealed (id, secret_before, previous_secret_before, older_secret_before, credentials_before, secret,
        previous_secret, older_secret, credentials)
WHERE s.id = resealed.id AND s.secret = resealed.secret_before
    AND s.previous_secret IS NOT DISTINCT FROM resealed.previous_secret_before
    AND s.older_secret IS NOT DISTINCT FROM resealed.older_secret_before
    AND s.credentials IS NOT DISTINCT FROM resealed.credentials_before AND s.deleted_at IS NULL
RETURNING s.id
