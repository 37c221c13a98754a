-- role: job_worker
-- index: finished_jobs' key
INSERT INTO finished_jobs (job_id) SELECT value FROM rarray(?1)
