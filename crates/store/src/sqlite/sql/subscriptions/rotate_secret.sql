-- role: subscription_admin
-- Replaces the secret ?2 by ?3. ?4 is the replaced secret and ?6 the one before it, each encrypted for its new column,
-- valid until ?5 and ?7. ?8 are the credentials and ?9 the public key if the signing key is replaced too.
-- If the row has another secret than ?2, it was rotated or encrypted again in the meantime, and nothing is changed.
-- index: primary key of subscriptions
UPDATE subscriptions
SET secret = ?3, previous_secret = ?4, previous_secret_expires_at = ?5, older_secret = ?6, older_secret_expires_at = ?7,
    credentials = coalesce(?8, credentials), public_key = coalesce(?9, public_key), updated_at = ?10,
    revision = revision + 1
WHERE id = ?1 AND secret = ?2 AND deleted_at IS NULL
RETURNING {subscription}
