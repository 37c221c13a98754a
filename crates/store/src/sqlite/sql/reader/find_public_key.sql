-- role: viewer
-- Returns the public key with the fingerprint ?1, if a subscription that is not deleted uses it.
-- index: idx_subscription_fingerprint
SELECT public_key FROM subscriptions WHERE public_key_fingerprint = ?1 AND deleted_at IS NULL LIMIT 1
