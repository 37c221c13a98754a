-- role: saga_orchestrator
-- When the next waiting saga comes due.
-- index: idx_saga_status_retry, its first entry behind $1 in each of the two waiting states. The pairs: see
-- claim_due_jobs.sql.
SELECT least(
    (SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
        WHERE (g.status, g.next_attempt_at) > ('Pending', $1::timestamptz)
            AND (g.status, g.next_attempt_at) <= ('Pending', 'infinity')
        ORDER BY g.status, g.next_attempt_at LIMIT 1),
    (SELECT g.next_attempt_at FROM posthaste.webhook_delivery_sagas g
        WHERE (g.status, g.next_attempt_at) > ('PendingRetry', $1::timestamptz)
            AND (g.status, g.next_attempt_at) <= ('PendingRetry', 'infinity')
        ORDER BY g.status, g.next_attempt_at LIMIT 1))
