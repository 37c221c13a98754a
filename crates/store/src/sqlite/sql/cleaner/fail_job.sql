-- role: lease_cleaner
-- Fails a job whose lease expired too often. The token is removed, so that a late report of the previous holder is
-- refused.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_jobs
SET status = 'Failed', error_code = ?2, lease_token = NULL, lease_resets = ?3
WHERE id = ?1 AND +status = 'Leased'
