-- role: subscription_admin
-- index: subscriptions' key
-- Only if the challenge went to the URL, and was signed with the secret, that stand there now.
UPDATE subscriptions SET verified = 1, updated_at = ?4
WHERE id = ?1 AND callback_url = ?2 AND secret = ?3 AND deleted_at IS NULL
