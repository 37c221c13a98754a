-- role: lease_cleaner
-- Inserts a failed job into the orchestrator's inbox.
-- index: primary key of finished_jobs
INSERT INTO finished_jobs (job_id) VALUES (?1)
