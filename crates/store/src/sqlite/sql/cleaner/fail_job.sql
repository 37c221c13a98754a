-- role: lease_cleaner
-- index: webhook_delivery_jobs' key; the plus keeps the status out of the choice of an index
-- Without its token the one who held the lease cannot take this end for its own.
UPDATE webhook_delivery_jobs
SET status = 'Failed', error_code = ?2, lease_token = NULL, lease_resets = ?3
WHERE id = ?1 AND +status = 'Leased'
