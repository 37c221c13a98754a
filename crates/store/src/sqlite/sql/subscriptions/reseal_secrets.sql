-- role: subscription_admin
-- Stores the secrets ?4 and ?5 if the row still has the secrets ?2 and ?3. If not, it was rotated or encrypted again in
-- the meantime. An expired previous secret is removed: ?5 is NULL. The time of the last change stays as it is, because
-- this is not a change of the subscription.
-- index: primary key of subscriptions
UPDATE subscriptions
SET secret = ?4, previous_secret = ?5,
    previous_secret_expires_at = CASE WHEN ?5 IS NULL THEN NULL ELSE previous_secret_expires_at END
WHERE id = ?1 AND secret = ?2 AND previous_secret IS ?3 AND deleted_at IS NULL
