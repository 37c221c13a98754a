-- role: saga_orchestrator
-- index: webhook_delivery_sagas' key; uniq_job_saga_attempt and uniq_job_active for the conflict alone
-- The attempt that a saga starts is named by the time it is due. The conflict has no target, because
-- both keys count: the attempt was made, or another is active. Only what is returned was made.
-- With start_attempts.sql 7 µs for each saga in batches of 500, against 14 one by one.
-- ?3 are the sagas whose job is suspect.
INSERT INTO webhook_delivery_jobs (saga_id, lease_until, attempt_at, created_at, suspect)
SELECT g.id, ?2, g.next_attempt_at, ?2, g.id IN (SELECT value FROM rarray(?3))
FROM webhook_delivery_sagas g
WHERE g.id IN (SELECT value FROM rarray(?1))
ON CONFLICT DO NOTHING
RETURNING id, saga_id
