-- role: saga_orchestrator
-- index: finished_jobs' key
-- A take leaves nothing out between its first and its last id, so that one range is the whole take.
DELETE FROM finished_jobs WHERE job_id BETWEEN ?1 AND ?2
