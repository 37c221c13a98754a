-- role: saga_orchestrator
-- When the next waiting saga comes due.
-- index: idx_saga_status_retry, its first entry behind $1 in each of the two waiting states.
SELECT least(
    (SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
        WHERE g.status = 'Pending' AND g.next_attempt_at > $1::timestamptz ORDER BY g.next_attempt_at LIMIT 1),
    (SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
        WHERE g.status = 'PendingRetry' AND g.next_attempt_at > $1::timestamptz ORDER BY g.next_attempt_at LIMIT 1))
