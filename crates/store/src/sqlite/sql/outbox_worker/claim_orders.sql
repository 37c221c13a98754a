-- role: outbox_worker
-- index: outbox_orders' key; the plus keeps the status out of the choice of an index
-- The note belongs to the transition before, and would go into the audit once more.
UPDATE outbox_orders
SET status = 'sending', lease_token = ?2, worker_id = ?3, note = NULL, updated_at = ?4
WHERE id = ?1 AND +status = 'queued'
