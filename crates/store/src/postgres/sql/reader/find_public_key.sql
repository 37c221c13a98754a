-- role: viewer
-- Returns the public key with the fingerprint $1, if a subscription that is not deleted uses it.
-- index: idx_subscription_fingerprint.
SELECT s.public_key FROM posthaste.subscriptions s
WHERE s.public_key_fingerprint = $1::text AND s.deleted_at IS NULL
LIMIT 1
