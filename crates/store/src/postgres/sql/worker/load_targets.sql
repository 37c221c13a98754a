-- role: job_worker
-- Returns the URLs and secrets of the subscriptions $1. A deleted subscription is not returned, so nothing is sent to
-- it, not even by a job that was created before the deletion.
-- index: subscriptions_pkey.
SELECT {target}, {secrets}
FROM posthaste.subscriptions s
WHERE s.id = ANY ((SELECT $1::bigint[])::bigint[]) AND s.deleted_at IS NULL
