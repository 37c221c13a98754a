-- role: job_worker
-- Inserts finished jobs into the orchestrator's inbox.
-- index: primary key of finished_jobs
INSERT INTO finished_jobs (job_id) SELECT value FROM rarray(?1)
