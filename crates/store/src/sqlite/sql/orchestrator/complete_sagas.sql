-- role: saga_orchestrator
-- Completes sagas with the same decision in one statement: 4.6 µs per applied result in batches of 500, compared with
-- 7.6 one by one. The same transaction has checked that this is still the current job of each saga, and there is no
-- other writer.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_sagas
SET status = 'Completed', attempt_count = ?2, current_job_id = NULL, updated_at = ?3
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'InProgress'
