-- role: subscription_admin
-- Replaces the secret ?2 by ?3. ?4 is the replaced secret and ?6 the one before it, each encrypted for its new column,
-- valid until ?5 and ?7. ?8 are the credentials, ?9 is the public key and ?11 its fingerprint if the signing key is
-- replaced too; ?12 are the credentials that are replaced. If the row has another secret than ?2 or other credentials
-- than ?12, it was changed or encrypted again in the meantime, and nothing is changed.
-- index: primary key of subscriptions
UPDATE subscriptions
SET secret = ?3, previous_secret = ?4, previous_secret_expires_at = ?5, older_secret = ?6, older_secret_expires_at = ?7,
    credentials = coalesce(?8, credentials), public_key = coalesce(?9, public_key),
    public_key_fingerprint = coalesce(?11, public_key_fingerprint), updated_at = ?10,
    revision = revision + 1
WHERE id = ?1 AND secret = ?2 AND deleted_at IS NULL
    AND (?8 IS NULL OR credentials IS ?12)
RETURNING {subscription}
