-- role: job_worker
-- index: subscriptions_pkey.
-- A deleted subscription is not loaded, so nothing is sent to it, not even by a job created before the deletion.
SELECT s.id, s.callback_url, s.verified, s.secret, s.previous_secret, s.previous_secret_expires_at
FROM posthaste.subscriptions s
WHERE s.id = ANY ((SELECT $1::bigint[])::bigint[]) AND s.deleted_at IS NULL
