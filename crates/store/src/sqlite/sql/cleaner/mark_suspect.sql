-- role: lease_cleaner
-- index: webhook_delivery_jobs' key
-- A mark that is set stays: the cleaner may not read it.
UPDATE webhook_delivery_jobs SET suspect = 1 WHERE id = ?1
