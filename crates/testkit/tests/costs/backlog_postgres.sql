-- Adds 30,000 rows to the history in every state that a statement reads, so that a statement with a limit of one
-- hundred shows whether it reads or sorts the rest. All of them have the same time. The queues contain events and
-- jobs from the history.
SET session_replication_role = replica;
SET search_path = posthaste;

INSERT INTO routing_queue (event_id) SELECT k FROM generate_series(1, 30000) k;
INSERT INTO finished_jobs (job_id) SELECT k FROM generate_series(1, 30000) k;

-- Sagas from id 400,001 are due for the first time, from 430,001 due for a retry, from 460,001 have a Pending job, and
-- from 490,001 have an expired lease.
INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        current_job_id, created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT 400000 + k, 400000 + k, 1 + k % 16,
        (CASE WHEN k <= 30000 THEN 'Pending' WHEN k <= 60000 THEN 'PendingRetry' ELSE 'InProgress' END)::saga_status,
        0, timestamptz '2027-01-15 07:00:00Z', CASE WHEN k > 60000 THEN 400000 + k END,
        timestamptz '2027-01-15 07:00:00Z', timestamptz '2027-01-15 07:00:00Z'
    FROM generate_series(1, 120000) k;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT 400000 + k, 400000 + k, (CASE WHEN k <= 90000 THEN 'Pending' ELSE 'Leased' END)::job_status,
        timestamptz '2027-01-15 07:00:00Z', timestamptz '2027-01-15 07:00:00Z',
        CASE WHEN k > 90000 THEN gen_random_uuid() END, CASE WHEN k > 90000 THEN 'gone' END,
        timestamptz '2027-01-15 07:00:00Z'
    FROM generate_series(60001, 120000) k;

INSERT INTO outbox_orders (id, idempotency_key, request_json, request_digest, status, next_attempt_at,
        created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT 400000 + k, 'key-' || 400000 + k, '{"symbol": "USDJPY"}', 'sha256:1',
        CASE WHEN k <= 30000 THEN 'queued' ELSE 'failed' END, timestamptz '2027-01-15 07:00:00Z',
        timestamptz '2027-01-15 07:00:00Z', timestamptz '2027-01-15 07:00:00Z'
    FROM generate_series(1, 60000) k;

-- The orders for these keys finished long ago.
INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'gone-' || k, 'sha256:1', timestamptz '2027-01-15 07:00:00Z'
    FROM generate_series(1, 30000) k;

RESET search_path;
RESET session_replication_role;
