-- role: subscription_admin
-- Marks a subscription as verified if its URL and secret are still those of the challenge.
-- index: primary key of subscriptions
UPDATE subscriptions SET verified = 1, updated_at = ?4
WHERE id = ?1 AND callback_url = ?2 AND secret = ?3 AND deleted_at IS NULL
