-- role: subscription_admin
-- Marks a subscription as verified if its URL and secret are still those that were verified.
-- index: primary key of subscriptions
UPDATE subscriptions
SET verified = 1, verification_method = ?4, verified_by = ?5, allowed_per_minute = ?6, verified_at = ?7,
    updated_at = ?7, revision = revision + 1
WHERE id = ?1 AND callback_url = ?2 AND secret = ?3 AND deleted_at IS NULL
