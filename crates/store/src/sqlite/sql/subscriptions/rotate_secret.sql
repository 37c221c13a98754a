-- role: subscription_admin
-- Replaces the secret ?2 by ?3; ?4 is the replaced secret, encrypted for its new column, which is valid until ?5.
-- If the row has another secret than ?2, it was rotated or encrypted again in the meantime, and nothing is changed.
-- index: primary key of subscriptions
UPDATE subscriptions
SET secret = ?3, previous_secret = ?4, previous_secret_expires_at = ?5, updated_at = ?6
WHERE id = ?1 AND secret = ?2 AND deleted_at IS NULL
RETURNING {subscription}
