-- role: lease_cleaner
-- Marks a job as suspect. Unconditional, because the cleaner may not read the flag.
-- index: primary key of webhook_delivery_jobs
UPDATE webhook_delivery_jobs SET suspect = 1 WHERE id = ?1
