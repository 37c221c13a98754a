-- role: job_worker
-- index: subscriptions_pkey.
-- A deleted subscription is not loaded, so nothing is sent to it, not even by a job created before the deletion.
SELECT {target}, {secrets}
FROM posthaste.subscriptions s
WHERE s.id = ANY ((SELECT $1::bigint[])::bigint[]) AND s.deleted_at IS NULL
