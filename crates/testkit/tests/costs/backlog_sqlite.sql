-- The counterpart of backlog_postgres.sql, for a file that fill_sqlite.sql has filled.

CREATE TEMP TABLE numbers (k INTEGER PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE counted (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < 120000)
    SELECT k FROM counted;

INSERT INTO routing_queue (event_id) SELECT k FROM numbers WHERE k <= 30000;
INSERT INTO finished_jobs (job_id) SELECT k FROM numbers WHERE k <= 30000;

INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        current_job_id, created_at, updated_at)
    SELECT 400000 + k, 400000 + k, 1 + k % 16,
        CASE WHEN k <= 30000 THEN 'Pending' WHEN k <= 60000 THEN 'PendingRetry' ELSE 'InProgress' END,
        0, 1799996400000000, iif(k > 60000, 400000 + k, NULL), 1799996400000000, 1799996400000000
    FROM numbers;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id, created_at)
    SELECT 400000 + k, 400000 + k, iif(k <= 90000, 'Pending', 'Leased'), 1799996400000000,
        1799996400000000, iif(k > 90000, zeroblob(16), NULL), iif(k > 90000, 'gone', NULL), 1799996400000000
    FROM numbers WHERE k > 60000;

INSERT INTO outbox_orders
    (id, idempotency_key, request_json, request_digest, status, next_attempt_at, created_at, updated_at)
    SELECT 400000 + k, 'key-' || (400000 + k), '{"symbol":"USDJPY"}', 'sha256:1', iif(k <= 30000, 'queued', 'failed'),
        1799996400000000, 1799996400000000, 1799996400000000
    FROM numbers WHERE k <= 60000;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'gone-' || k, 'sha256:1', 1799996400000000 FROM numbers WHERE k <= 30000;

DROP TABLE numbers;
