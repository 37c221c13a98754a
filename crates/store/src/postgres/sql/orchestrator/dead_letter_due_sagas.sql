-- role: saga_orchestrator
-- Ends sagas that came due over a limit that had been lowered; a trigger writes their dead letters. fetch_due_sagas.sql
-- locked them.
-- index: webhook_delivery_sagas_pkey.
UPDATE posthaste.webhook_delivery_sagas g
SET status = 'DeadLettered', current_job_id = NULL, updated_at = $2::timestamptz
WHERE g.id = ANY ((SELECT $1::bigint[])::bigint[]) AND CASE WHEN g.status = 'PendingRetry' THEN true ELSE false END
