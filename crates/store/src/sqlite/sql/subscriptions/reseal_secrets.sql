-- role: subscription_admin
-- Stores secrets that were encrypted again, ?6 to ?9, if the row still has the secrets ?2 to ?5. If not, it was changed
-- in the meantime. An expired secret is removed: its new value is NULL. The time of the last change stays as it is,
-- because this is not a change of the subscription.
-- index: primary key of subscriptions
UPDATE subscriptions
SET secret = ?6, previous_secret = ?7, older_secret = ?8, credentials = ?9,
    previous_secret_expires_at = CASE WHEN ?7 IS NULL THEN NULL ELSE previous_secret_expires_at END,
    older_secret_expires_at = CASE WHEN ?8 IS NULL THEN NULL ELSE older_secret_expires_at END
WHERE id = ?1 AND secret = ?2 AND previous_secret IS ?3 AND older_secret IS ?4 AND credentials IS ?5
    AND deleted_at IS NULL
