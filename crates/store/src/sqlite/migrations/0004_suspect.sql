-- Jobs that may have killed their worker. The normal claim skips them; a second statement claims one at a time along
-- the index.

ALTER TABLE webhook_delivery_jobs ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0
    CONSTRAINT job_suspect CHECK (suspect = 0 OR suspect = 1);
CREATE INDEX idx_job_suspect ON webhook_delivery_jobs (lease_until) WHERE suspect AND status = 'Pending';
