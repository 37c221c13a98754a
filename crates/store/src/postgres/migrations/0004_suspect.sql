-- posthaste: no transaction
-- Jobs that may have killed their worker. The normal claim skips them; a second statement claims one at a time along
-- the index. The index is built without blocking writers, and each step may run again.
-- step: add the column; a constant default rewrites no row
ALTER TABLE posthaste.webhook_delivery_jobs ADD COLUMN IF NOT EXISTS suspect boolean NOT NULL DEFAULT false;
-- step: drop the invalid index that an interrupted build leaves
DROP INDEX CONCURRENTLY IF EXISTS posthaste.idx_job_suspect;
-- step: the build waits for transactions that are open, and blocks nobody meanwhile
SET lock_timeout = '10min';
-- step: build
CREATE INDEX CONCURRENTLY idx_job_suspect ON posthaste.webhook_delivery_jobs (lease_until)
    WHERE suspect AND status = 'Pending';
-- step: back to the timeout of migrations
SET lock_timeout = '5s';
