-- role: subscription_admin
-- Replaces the secret; the old secret becomes the previous secret until ?3.
-- index: primary key of subscriptions
UPDATE subscriptions
SET previous_secret = secret, previous_secret_expires_at = ?3, secret = ?2, updated_at = ?4
WHERE id = ?1 AND deleted_at IS NULL
RETURNING {subscription}
