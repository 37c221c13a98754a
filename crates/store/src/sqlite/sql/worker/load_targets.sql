-- role: job_worker
-- index: subscriptions' key
-- A deleted subscription is gone for the worker: nothing is sent to it any more.
SELECT id, callback_url, verified, secret, previous_secret, previous_secret_expires_at
FROM subscriptions WHERE id = ?1 AND deleted_at IS NULL
