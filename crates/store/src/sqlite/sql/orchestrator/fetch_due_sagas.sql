-- role: saga_orchestrator
-- Returns up to ?3 sagas of a subscription that are due for their first attempt and up to ?3 that are due for a retry,
-- oldest first (admission::decide chooses among them). A Pending saga is due regardless of its time: one in the future
-- was stored before the clock was set back.
-- index: idx_saga_subscription_due, one range for each of the two states
SELECT * FROM (
    SELECT id, event_id, status, attempt_count, next_attempt_at, final_error_code, current_job_id
    FROM webhook_delivery_sagas INDEXED BY idx_saga_subscription_due
    WHERE subscription_id = ?1 AND status = 'Pending' AND next_attempt_at >= ?4
    ORDER BY next_attempt_at
    LIMIT ?3)
UNION ALL
SELECT * FROM (
    SELECT id, event_id, status, attempt_count, next_attempt_at, final_error_code, current_job_id
    FROM webhook_delivery_sagas INDEXED BY idx_saga_subscription_due
    WHERE subscription_id = ?1 AND status = 'PendingRetry' AND next_attempt_at >= ?4 AND next_attempt_at <= ?2
    ORDER BY next_attempt_at
    LIMIT ?3)
