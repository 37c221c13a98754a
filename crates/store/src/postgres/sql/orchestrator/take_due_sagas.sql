-- role: saga_orchestrator
-- The sagas that are due now, oldest first, at most $2 of each subscription in $1, if it may be sent to. Those
-- that another orchestrator is admitting are left out.
-- index: idx_saga_subscription_due once for each of the two waiting states, subscriptions_pkey.
-- Each branch walks the index in order and stops at the quota, so a backlog of a million costs nothing.
SELECT g.id, g.subscription_id, g.status::text, g.attempt_count, g.next_attempt_at, g.final_error_code, s.max_retry_limit
FROM unnest($1::bigint[], $2::integer[]) AS quota (subscription_id, jobs_max)
CROSS JOIN LATERAL (
    SELECT s.max_retry_limit FROM posthaste.subscriptions s
    WHERE s.id = quota.subscription_id AND s.active AND s.verified AND s.deleted_at IS NULL
    OFFSET 0
) s
CROSS JOIN LATERAL (
    SELECT fresh.*
    FROM (
        SELECT g.id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code
        FROM posthaste.webhook_delivery_sagas g
        WHERE g.subscription_id = quota.subscription_id AND g.status = 'Pending' AND g.next_attempt_at <= $3::timestamptz
        ORDER BY g.next_attempt_at
        LIMIT quota.jobs_max
        FOR NO KEY UPDATE SKIP LOCKED
    ) fresh
    UNION ALL
    SELECT again.*
    FROM (
        SELECT g.id, g.subscription_id, g.status, g.attempt_count, g.next_attempt_at, g.final_error_code
        FROM posthaste.webhook_delivery_sagas g
        WHERE g.subscription_id = quota.subscription_id AND g.status = 'PendingRetry' AND g.next_attempt_at <= $3::timestamptz
        ORDER BY g.next_attempt_at
        LIMIT quota.jobs_max
        FOR NO KEY UPDATE SKIP LOCKED
    ) again
    ORDER BY next_attempt_at
    LIMIT quota.jobs_max
) g
