-- role: job_worker
-- index: subscriptions' key
-- A deleted subscription is gone for the worker: nothing is sent to it any more.
SELECT {target}, {secrets}
FROM subscriptions WHERE id = ?1 AND deleted_at IS NULL
