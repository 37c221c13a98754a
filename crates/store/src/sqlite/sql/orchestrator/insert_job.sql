-- role: saga_orchestrator
-- index: uniq_job_saga_attempt and uniq_job_active, for the conflict alone
-- The conflict has no target, because both keys count: the attempt was made, or another is active.
INSERT INTO webhook_delivery_jobs (saga_id, lease_until, attempt_at, created_at)
VALUES (?1, ?3, ?2, ?3)
ON CONFLICT DO NOTHING
