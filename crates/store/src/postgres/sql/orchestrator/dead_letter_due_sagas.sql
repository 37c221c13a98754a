-- role: saga_orchestrator
-- Dead-letters due sagas that have reached their retry limit because it was lowered. A trigger writes the dead letters.
-- fetch_due_sagas.sql has locked the rows.
-- index: webhook_delivery_sagas_pkey.
UPDATE posthaste.webhook_delivery_sagas g
SET status = 'DeadLettered', current_job_id = NULL, updated_at = $2::timestamptz
WHERE g.id = ANY ((SELECT $1::bigint[])::bigint[]) AND CASE WHEN g.status = 'PendingRetry' THEN true ELSE false END
