-- role: lease_cleaner
-- Resets a job to Pending and removes its token, so that a late report of the previous holder is refused.
-- index: primary key; the unary + keeps the status from selecting an index
UPDATE webhook_delivery_jobs
SET status = 'Pending', lease_until = ?2, lease_token = NULL, worker_id = NULL, lease_resets = ?3
WHERE id = ?1 AND +status = 'Leased'
