-- role: viewer
-- index: webhook_delivery_sagas' key, backwards
-- How the newest deliveries stand, whoever they go to: no index has the finished ones of one subscription.
SELECT subscription_id, status, created_at, updated_at, final_error_code
FROM webhook_delivery_sagas WHERE id < ?1 ORDER BY id DESC LIMIT ?2
