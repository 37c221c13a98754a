-- Creates the data of a busy installation within seconds; main.rs defines the row counts. Triggers are disabled
-- (session_replication_role), so that rows can be inserted in their final state. The live rows are inserted first and
-- analyzed, so that the statistics are misleading: according to them, every row is waiting. The history follows.
SET session_replication_role = replica;
SET synchronous_commit = off;
SET search_path = posthaste;
SET maintenance_work_mem = '128MB';

DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT format('%s', oid::regclass) FROM pg_class
        WHERE relnamespace = 'posthaste'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
    END LOOP;
END $$;

-- ── live rows ────────────────────────────────────────────────────────────────────────────────────
-- Rows 1 to 100 are Pending, 101 to 200 wait for a retry, 201 to 300 are leased (the first half has expired), 301 to
-- 400 have finished but are not applied, and 401 to 500 can be claimed. Events 501 to 600 are not yet routed.

-- Those of the types 1 to 100 have a filter.
INSERT INTO subscriptions (id, event_type, event_types, filter, callback_url, verified, secret) OVERRIDING SYSTEM VALUE
    SELECT k, 'kind.' || k % 1000, ARRAY['kind.' || k % 1000],
        CASE WHEN k % 1000 BETWEEN 1 AND 100 THEN '{"exact":{"region":"eu"}}' END,
        'https://receiver.example/hook/' || k, true, 'secret-' || k
    FROM generate_series(1, 4000) k;
INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT '', 'kind.' || k % 1000, k, true FROM generate_series(1, 4000) k;

INSERT INTO events (id, external_event_id, event_type, payload, created_at) OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, 'external-' || 300000 + k, 'kind.' || k % 1000, '{"live": true}',
        timestamptz '2027-01-15 08:00:00Z'
    FROM generate_series(1, 600) k;

INSERT INTO routing_queue (event_id) SELECT 300000 + k FROM generate_series(501, 600) k;

INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        final_error_code, current_job_id, created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, 300000 + k, 1 + k % 32,
        (CASE WHEN k <= 100 THEN 'Pending' WHEN k <= 200 THEN 'PendingRetry' ELSE 'InProgress' END)::saga_status,
        CASE WHEN k BETWEEN 101 AND 200 THEN 1 ELSE 0 END, timestamptz '2027-01-15 07:59:00Z',
        CASE WHEN k BETWEEN 101 AND 200 THEN 'HTTP_500' END, CASE WHEN k > 200 THEN 300000 + k END,
        timestamptz '2027-01-15 07:58:00Z', timestamptz '2027-01-15 07:58:00Z'
    FROM generate_series(1, 500) k;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id,
        response_status, duration_ms, created_at) OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, 300000 + k,
        (CASE WHEN k <= 300 THEN 'Leased' WHEN k <= 400 THEN 'Completed' ELSE 'Pending' END)::job_status,
        timestamptz '2027-01-15 07:59:30Z' + CASE WHEN k BETWEEN 251
            AND 300 THEN interval '5 minutes' ELSE interval '0' END,
        timestamptz '2027-01-15 07:59:00Z',
        CASE WHEN k <= 400 THEN uuid '00000000-0000-0000-0000-0000000000aa' END,
        CASE WHEN k <= 400 THEN 'worker-1' END,
        CASE WHEN k BETWEEN 301 AND 400 THEN 200 END, CASE WHEN k BETWEEN 301 AND 400 THEN 7 END,
        timestamptz '2027-01-15 07:59:00Z'
    FROM generate_series(201, 500) k;

INSERT INTO finished_jobs (job_id) SELECT 300000 + k FROM generate_series(301, 400) k;

-- Orders 1 to 100 are queued, 101 to 200 are sending (the first half is stuck), and 201 to 300 have failed and are due.
INSERT INTO outbox_orders (id, idempotency_key, request_json, request_digest, status, retry_count,
        next_attempt_at, created_at, updated_at, lease_token, worker_id) OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, 'key-' || 300000 + k, '{"symbol": "USDJPY"}', 'sha256:' || md5(k::text) || md5(k::text),
        CASE WHEN k <= 100 THEN 'queued' WHEN k <= 200 THEN 'sending' ELSE 'failed' END, 0,
        timestamptz '2027-01-15 07:59:00Z', timestamptz '2027-01-15 07:59:00Z',
        CASE WHEN k BETWEEN 101
            AND 150 THEN timestamptz '2027-01-15 07:00:00Z' ELSE timestamptz '2027-01-15 07:59:50Z' END,
        CASE WHEN k BETWEEN 101 AND 200 THEN uuid '00000000-0000-0000-0000-0000000000aa' END,
        CASE WHEN k BETWEEN 101 AND 200 THEN 'worker-1' END
    FROM generate_series(1, 300) k;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'key-' || 300000 + k, 'sha256:' || md5(k::text) || md5(k::text), timestamptz '2027-01-22 08:00:00Z'
    FROM generate_series(1, 300) k;

INSERT INTO outbox_audit (id, outbox_id, status_to, retry_count, idempotency_key, created_at) OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, 300000 + k, 'queued', 0, 'key-' || 300000 + k, timestamptz '2027-01-15 07:59:00Z'
    FROM generate_series(1, 300) k;

INSERT INTO outbox_lane (rate, updated_at) VALUES (100, timestamptz '2027-01-15 07:59:00Z') ON CONFLICT DO NOTHING;

INSERT INTO dead_letters (id, saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, 300000 + k, 300000 + k, 1 + k % 4000, 'HTTP_500', timestamptz '2027-01-15 07:59:00Z', '{}'
    FROM generate_series(1, 100) k;

INSERT INTO subscription_changes (id, subscription_id, event_type, callback_url, active, verified, changed_at)
    OVERRIDING SYSTEM VALUE
    SELECT 300000 + k, k, 'kind.' || k % 1000, 'https://receiver.example/hook', true, true, timestamptz '2027-01-01Z'
    FROM generate_series(1, 4000) k;

INSERT INTO api_keys (name, role, key_hash)
    SELECT 'key ' || k, 'ingest', sha256(k::text::bytea) FROM generate_series(1, 50) k;

ANALYZE;

-- ── history ──────────────────────────────────────────────────────────────────────────────────────
-- Building an index on existing rows takes a third of the time. Indexes of constraints are kept.

CREATE TEMP TABLE index_made_later AS
    SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS definition
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'posthaste'::regnamespace AND NOT i.indisprimary
        AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid);
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT i.name FROM index_made_later i LOOP
        EXECUTE 'DROP INDEX ' || name;
    END LOOP;
END $$;

INSERT INTO events (id, external_event_id, event_type, payload, created_at) OVERRIDING SYSTEM VALUE
    SELECT k, 'external-' || k, 'kind.' || k % 1000, json_build_object('order', md5(k::text)),
        timestamptz '2027-01-01Z' + k * interval '4 seconds'
    FROM generate_series(1, 300000) k;

INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        final_error_code, requeued_from, created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT k, k, 1 + k % 4000, (CASE WHEN k % 2 = 0 THEN 'DeadLettered' ELSE 'Completed' END)::saga_status, 1,
        timestamptz '2027-01-01Z' + k * interval '4 seconds', CASE WHEN k % 2 = 0 THEN 'HTTP_500' END,
        CASE WHEN k % 10 = 0 THEN k - 1 END,
        timestamptz '2027-01-01Z' + k * interval '4 seconds', timestamptz '2027-01-01Z' + k * interval '4 seconds'
    FROM generate_series(1, 300000) k;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id,
        response_status, error_code, duration_ms, created_at) OVERRIDING SYSTEM VALUE
    SELECT k, k, (CASE WHEN k % 2 = 0 THEN 'Failed' ELSE 'Completed' END)::job_status,
        timestamptz '2027-01-01Z' + k * interval '4 seconds', timestamptz '2027-01-01Z' + k * interval '4 seconds',
        md5(k::text)::uuid, 'worker-1', 200, CASE WHEN k % 2 = 0 THEN 'HTTP_500' END, 7,
        timestamptz '2027-01-01Z' + k * interval '4 seconds'
    FROM generate_series(1, 300000) k;

INSERT INTO dead_letters (id, saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    OVERRIDING SYSTEM VALUE
    SELECT k, k, k, 1 + k % 4000, 'HTTP_500', timestamptz '2027-01-01Z' + k * interval '4 seconds', '{"order": 1}'
    FROM generate_series(1, 300000) k;

INSERT INTO outbox_orders (id, idempotency_key, request_json, request_digest, status, retry_count,
        next_attempt_at, created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT k, 'key-' || k, '{"symbol": "USDJPY"}', 'sha256:' || md5(k::text) || md5(k::text),
        CASE WHEN k % 10 = 0 THEN 'dead' ELSE 'sent' END, 0, timestamptz '2027-01-01Z' + k * interval '4 seconds',
        timestamptz '2027-01-01Z' + k * interval '4 seconds', timestamptz '2027-01-01Z' + k * interval '4 seconds'
    FROM generate_series(1, 300000) k;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'key-' || k, 'sha256:' || md5(k::text) || md5(k::text),
        timestamptz '2027-01-15 07:59:00Z' + k * interval '1 second'
    FROM generate_series(1, 300000) k;

INSERT INTO outbox_audit (id, outbox_id, status_to, retry_count, idempotency_key, created_at) OVERRIDING SYSTEM VALUE
    SELECT k, k, 'queued', 0, 'key-' || k, timestamptz '2027-01-01Z' + k * interval '4 seconds'
    FROM generate_series(1, 300000) k;

INSERT INTO subscription_changes (id, subscription_id, event_type, callback_url, active, verified, changed_at)
    OVERRIDING SYSTEM VALUE
    SELECT k, 1 + k % 4000, 'kind.' || k % 1000, 'https://receiver.example/hook', true, true,
        timestamptz '2027-01-01Z' + k * interval '4 seconds'
    FROM generate_series(1, 300000) k;

DO $$
DECLARE
    definition text;
BEGIN
    FOR definition IN SELECT i.definition FROM index_made_later i LOOP
        EXECUTE definition;
    END LOOP;
END $$;

-- New rows get ids above all existing ones.
SELECT setval(pg_get_serial_sequence('posthaste.' || table_name, 'id'), 1000000)
    FROM information_schema.columns
    WHERE table_schema = 'posthaste' AND column_name = 'id' AND is_identity = 'YES';

RESET session_replication_role;
