-- role: outbox_worker
-- Claims a queued order for one sender. The note is cleared: it belongs to the previous transition, and the trigger
-- would write it to the audit again.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE outbox_orders
SET status = 'sending', lease_token = ?2, worker_id = ?3, note = NULL, updated_at = ?4
WHERE id = ?1 AND +status = 'queued'
