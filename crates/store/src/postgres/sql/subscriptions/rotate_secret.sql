-- role: subscription_admin
-- Replaces the secret $2 by $3. $4 is the replaced secret and $6 the one before it, each encrypted for its new column,
-- valid until $5 and $7. $8 are the credentials, $9 is the public key and $11 its fingerprint if the signing key is
-- replaced too; $12 are the credentials that are replaced. If the row has another secret than $2 or other credentials
-- than $12, it was changed or encrypted again in the meantime, and nothing is changed.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET secret = $3::text, previous_secret = $4::text, previous_secret_expires_at = $5::timestamptz,
    older_secret = $6::text, older_secret_expires_at = $7::timestamptz,
    credentials = coalesce($8::text, s.credentials), public_key = coalesce($9::text, s.public_key),
    public_key_fingerprint = coalesce($11::text, s.public_key_fingerprint),
    updated_at = $10::timestamptz, revision = s.revision + 1
WHERE s.id = $1::bigint AND s.secret = $2::text AND s.deleted_at IS NULL
    AND ($8::text IS NULL OR s.credentials IS NOT DISTINCT FROM $12::text)
RETURNING {subscription}
