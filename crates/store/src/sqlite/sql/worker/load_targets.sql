-- role: job_worker
-- Returns the URL and the secrets of a subscription. A deleted subscription is not returned, so nothing is sent to it.
-- index: primary key of subscriptions
SELECT {target}, {secrets}
FROM subscriptions WHERE id = ?1 AND deleted_at IS NULL
