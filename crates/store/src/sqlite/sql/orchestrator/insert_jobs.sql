-- role: saga_orchestrator
-- Inserts the jobs of new attempts and returns them; ?3 are the sagas whose job is suspect. Together with
-- start_attempts.sql, this takes 7 µs per saga in batches of 500, compared with 14 one by one.
-- index: primary key of webhook_delivery_sagas; uniq_job_saga_attempt and uniq_job_active for the conflict only
-- An attempt is identified by its due time. ON CONFLICT has no target, so that both unique indexes apply: the attempt
-- exists already, or another one is active.
INSERT INTO webhook_delivery_jobs (saga_id, lease_until, attempt_at, created_at, suspect)
SELECT g.id, ?2, g.next_attempt_at, ?2, g.id IN (SELECT value FROM rarray(?3))
FROM webhook_delivery_sagas g
WHERE g.id IN (SELECT value FROM rarray(?1))
ON CONFLICT DO NOTHING
RETURNING id, saga_id
