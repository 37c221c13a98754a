-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; the plus keeps the status out of the choice of an index
-- Sagas of one decision together: 4.6 µs for each applied result in batches of 500, against 7.6 one by
-- one. That each waits for its very job was read in this transaction, beside which nobody writes.
UPDATE webhook_delivery_sagas
SET status = 'Completed', attempt_count = ?2, current_job_id = NULL, updated_at = ?3
WHERE id IN (SELECT value FROM rarray(?1)) AND +status = 'InProgress'
