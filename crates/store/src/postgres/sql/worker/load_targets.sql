-- role: job_worker
-- index: subscriptions_pkey.
SELECT s.id, s.callback_url, s.verified, s.secret, s.previous_secret, s.previous_secret_expires_at
FROM posthaste.subscriptions s
WHERE s.id = ANY ((SELECT $1::bigint[])::bigint[])
