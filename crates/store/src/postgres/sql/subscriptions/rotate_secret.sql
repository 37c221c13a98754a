-- role: subscription_admin
-- Replaces the secret $2 by $3; $4 is the replaced secret, encrypted for its new column, which is valid until $5.
-- If the row has another secret than $2, it was rotated or encrypted again in the meantime, and nothing is changed.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET secret = $3::text, previous_secret = $4::text, previous_secret_expires_at = $5::timestamptz,
    updated_at = $6::timestamptz
WHERE s.id = $1::bigint AND s.secret = $2::text AND s.deleted_at IS NULL
RETURNING {subscription}
