-- role: lease_cleaner
-- index: finished_jobs' key
INSERT INTO finished_jobs (job_id) VALUES (?1)
