-- role: saga_orchestrator
-- index: subscriptions' key
-- Only a subscription that may be sent to has sagas to admit.
SELECT max_retry_limit FROM subscriptions
WHERE id = ?1 AND active = 1 AND verified = 1 AND deleted_at IS NULL
