-- role: saga_orchestrator
-- When the next waiting saga comes due.
-- index: idx_saga_status_retry, its first entry behind $1 in each of the two waiting states. The states out of VALUES:
-- see find_due_subscriptions.sql.
SELECT min(following.next_attempt_at)
FROM (VALUES ('Pending'::posthaste.saga_status), ('PendingRetry')) AS waiting (status)
CROSS JOIN LATERAL (
    SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
    WHERE g.status = waiting.status AND g.next_attempt_at > $1::timestamptz
    ORDER BY g.next_attempt_at
    LIMIT 1
) following
