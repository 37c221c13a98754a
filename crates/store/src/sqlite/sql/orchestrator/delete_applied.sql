-- role: saga_orchestrator
-- Removes the fetched jobs from the inbox. A fetch returns every job between its first and its last id, so one range
-- covers all of them.
-- index: primary key of finished_jobs
DELETE FROM finished_jobs WHERE job_id BETWEEN ?1 AND ?2
