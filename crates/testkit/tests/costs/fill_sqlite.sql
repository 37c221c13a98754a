-- The counterpart of fill_postgres.sql, with the same ids and states. sqlite.rs drops triggers and indexes while this
-- script runs, so that rows can be inserted in their final state, and faster. 1800000000000000 is the time of the live
-- rows in microseconds.

CREATE TEMP TABLE numbers (k INTEGER PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE counted (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < 300000)
    SELECT k FROM counted;

INSERT INTO subscriptions (id, event_type, event_types, filter, callback_url, verified, secret_ref, secret, created_at,
        updated_at)
    SELECT k, 'kind.' || (k % 1000), json_array('kind.' || (k % 1000)),
        iif(k % 1000 BETWEEN 1 AND 100, '{"exact":{"region":"eu"}}', NULL), 'https://receiver.example/hook/' || k, 1,
        randomblob(16), 'secret-' || k, 1798761600000000, 1798761600000000
    FROM numbers WHERE k <= 4000;
INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT '', 'kind.' || (k % 1000), k, 1 FROM numbers WHERE k <= 4000;

-- ── history ──────────────────────────────────────────────────────────────────────────────────────

INSERT INTO events (id, external_event_id, event_type, payload, created_at)
    SELECT k, 'external-' || k, 'kind.' || (k % 1000), '{"order": ' || k || '}', 1798761600000000 + k * 4000000
        FROM numbers;

INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        final_error_code, requeued_from, created_at, updated_at)
    SELECT k, k, 1 + k % 4000, iif(k % 2 = 0, 'DeadLettered', 'Completed'), 1, 1798761600000000 + k * 4000000,
        iif(k % 2 = 0, 'HTTP_500', NULL), iif(k % 10 = 0, k - 1, NULL),
        1798761600000000 + k * 4000000, 1798761600000000 + k * 4000000
    FROM numbers;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id,
        response_status, error_code, duration_ms, created_at)
    SELECT k, k, iif(k % 2 = 0, 'Failed', 'Completed'), 1798761600000000 + k * 4000000, 1798761600000000 + k * 4000000,
        zeroblob(16), 'worker-1', 200, iif(k % 2 = 0, 'HTTP_500', NULL), 7, 1798761600000000 + k * 4000000
    FROM numbers;

INSERT INTO dead_letters (id, saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    SELECT k, k, k, 1 + k % 4000, 'HTTP_500', 1798761600000000 + k * 4000000, '{"order": 1}' FROM numbers;

INSERT INTO outbox_orders
    (id, idempotency_key, request_json, request_digest, status, next_attempt_at, created_at, updated_at)
    SELECT k, 'key-' || k, '{"symbol":"USDJPY"}', printf('sha256:%064x', k), iif(k % 10 = 0, 'dead', 'sent'),
        1798761600000000 + k * 4000000, 1798761600000000 + k * 4000000, 1798761600000000 + k * 4000000
    FROM numbers;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'key-' || k, printf('sha256:%064x', k), 1799999940000000 + k * 1000000 FROM numbers;

INSERT INTO outbox_audit (id, outbox_id, status_to, retry_count, idempotency_key, created_at)
    SELECT k, k, 'queued', 0, 'key-' || k, 1798761600000000 + k * 4000000 FROM numbers;

INSERT INTO subscription_changes (id, subscription_id, event_type, callback_url, active, verified, changed_at)
    SELECT k, 1 + k % 4000, 'kind.' || (k % 1000), 'https://receiver.example/hook', 1, 1, 1798761600000000 + k * 4000000
    FROM numbers;

-- ── live rows ────────────────────────────────────────────────────────────────────────────────────

INSERT INTO events (id, external_event_id, event_type, payload, created_at)
    SELECT 300000 + k, 'external-' || (300000 + k), 'kind.' || (k % 1000), '{"live": true}', 1800000000000000
    FROM numbers WHERE k <= 600;

INSERT INTO routing_queue (event_id) SELECT 300000 + k FROM numbers WHERE k BETWEEN 501 AND 600;

INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        final_error_code, current_job_id, created_at, updated_at)
    SELECT 300000 + k, 300000 + k, 1 + k % 32,
        CASE WHEN k <= 100 THEN 'Pending' WHEN k <= 200 THEN 'PendingRetry' ELSE 'InProgress' END,
        iif(k BETWEEN 101 AND 200, 1, 0), 1799999940000000, iif(k BETWEEN 101 AND 200, 'HTTP_500', NULL),
        iif(k > 200, 300000 + k, NULL), 1799999880000000, 1799999880000000
    FROM numbers WHERE k <= 500;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id,
        response_status, duration_ms, created_at)
    SELECT 300000 + k, 300000 + k, CASE WHEN k <= 300 THEN 'Leased' WHEN k <= 400 THEN 'Completed' ELSE 'Pending' END,
        1799999970000000 + iif(k BETWEEN 251 AND 300, 300000000, 0), 1799999940000000,
        iif(k <= 400, zeroblob(16), NULL), iif(k <= 400, 'worker-1', NULL),
        iif(k BETWEEN 301 AND 400, 200, NULL), iif(k BETWEEN 301 AND 400, 7, NULL), 1799999940000000
    FROM numbers WHERE k BETWEEN 201 AND 500;

INSERT INTO finished_jobs (job_id) SELECT 300000 + k FROM numbers WHERE k BETWEEN 301 AND 400;

INSERT INTO outbox_orders (id, idempotency_key, request_json, request_digest, status, next_attempt_at,
        created_at, updated_at, lease_token, worker_id)
    SELECT 300000 + k, 'key-' || (300000 + k), '{"symbol":"USDJPY"}', printf('sha256:%064x', k),
        CASE WHEN k <= 100 THEN 'queued' WHEN k <= 200 THEN 'sending' ELSE 'failed' END, 1799999940000000,
        1799999940000000, iif(k BETWEEN 101 AND 150, 1799996400000000, 1799999990000000),
        iif(k BETWEEN 101 AND 200, zeroblob(16), NULL), iif(k BETWEEN 101 AND 200, 'worker-1', NULL)
    FROM numbers WHERE k <= 300;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'key-' || (300000 + k), printf('sha256:%064x', k), 1800604800000000 FROM numbers WHERE k <= 300;

INSERT INTO outbox_audit (id, outbox_id, status_to, retry_count, idempotency_key, created_at)
    SELECT 300000 + k, 300000 + k, 'queued', 0, 'key-' || (300000 + k), 1799999940000000 FROM numbers WHERE k <= 300;

INSERT INTO outbox_lane (id, rate, updated_at) VALUES (1, 100.0, 1799999940000000) ON CONFLICT DO NOTHING;

DROP TABLE numbers;
