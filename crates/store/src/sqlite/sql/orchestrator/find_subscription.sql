-- role: saga_orchestrator
-- Returns the retry limit of a subscription, or no row if it is inactive, unverified or deleted, in which case none of
-- its sagas is admitted.
-- index: primary key of subscriptions
SELECT max_retry_limit FROM subscriptions
WHERE id = ?1 AND active = 1 AND verified = 1 AND deleted_at IS NULL
