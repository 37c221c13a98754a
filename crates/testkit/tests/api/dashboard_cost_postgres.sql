-- Fixture of dashboard_cost.rs: a history of {deliveries} deliveries and as many orders, inserted without triggers.
-- Rows of tables with updates are stored in random order, as after a long time; append-only tables are in id order.
SET session_replication_role = replica;
SET synchronous_commit = off;
SET search_path = posthaste;

INSERT INTO subscriptions (id, event_type, event_types, callback_url, verified, secret) OVERRIDING SYSTEM VALUE
    SELECT k, 'kind.' || k, ARRAY['kind.' || k], 'https://receiver.example/hook/' || k, true, 'secret-' || k
    FROM generate_series(1, 10) k;

INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT '', 'kind.' || k, k, true FROM generate_series(1, 10) k;

INSERT INTO subscription_changes (subscription_id, event_type, callback_url, active, verified, changed_at)
    SELECT k, 'kind.' || k, 'https://receiver.example/hook/' || k, true, true, timestamptz '2026-01-01Z'
    FROM generate_series(1, 10) k;

INSERT INTO events (id, external_event_id, event_type, payload, created_at) OVERRIDING SYSTEM VALUE
    SELECT k, 'external-' || k, 'kind.' || 1 + k % 10, json_build_object('order', md5(k::text)),
        timestamptz '2026-01-01Z' + k * interval '1 second'
    FROM generate_series(1, {deliveries}) k;

-- The dead letter of delivery k is k / 2, and it was requeued as delivery k + 1.
INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        final_error_code, requeued_from, created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT k, k, 1 + k % 10, (CASE WHEN k % 2 = 0 THEN 'DeadLettered' ELSE 'Completed' END)::saga_status, 1,
        timestamptz '2026-01-01Z' + k * interval '1 second', CASE WHEN k % 2 = 0 THEN 'HTTP_500' END,
        CASE WHEN k % 2 = 1 AND k > 1 THEN k / 2 END,
        timestamptz '2026-01-01Z' + k * interval '1 second', timestamptz '2026-01-01Z' + k * interval '1 second'
    FROM generate_series(1, {deliveries}) k ORDER BY md5(k::text);

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id,
        response_status, error_code, duration_ms, created_at) OVERRIDING SYSTEM VALUE
    SELECT k, k, (CASE WHEN k % 2 = 0 THEN 'Failed' ELSE 'Completed' END)::job_status,
        timestamptz '2026-01-01Z' + k * interval '1 second', timestamptz '2026-01-01Z' + k * interval '1 second',
        md5(k::text)::uuid, 'worker-1', 200, CASE WHEN k % 2 = 0 THEN 'HTTP_500' END, 7,
        timestamptz '2026-01-01Z' + k * interval '1 second'
    FROM generate_series(1, {deliveries}) k;

INSERT INTO dead_letters (id, saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    OVERRIDING SYSTEM VALUE
    SELECT k, 2 * k, 2 * k, 1 + 2 * k % 10, 'HTTP_500', timestamptz '2026-01-01Z' + k * interval '2 seconds',
        json_build_object('order', md5(k::text))
    FROM generate_series(1, {deliveries} / 2) k;

INSERT INTO outbox_orders (id, idempotency_key, request_json, request_digest, status, retry_count,
        next_attempt_at, created_at, updated_at) OVERRIDING SYSTEM VALUE
    SELECT k, 'key-' || k, '{"symbol": "USDJPY"}', 'sha256:' || md5(k::text) || md5(k::text),
        CASE WHEN k % 10 = 0 THEN 'dead' ELSE 'sent' END, 0, timestamptz '2026-01-01Z' + k * interval '1 second',
        timestamptz '2026-01-01Z' + k * interval '1 second', timestamptz '2026-01-01Z' + k * interval '1 second'
    FROM generate_series(1, {deliveries}) k ORDER BY md5(k::text);

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'key-' || k, 'sha256:' || md5(k::text) || md5(k::text), timestamptz '2028-01-01Z' + k * interval '1 second'
    FROM generate_series(1, {deliveries}) k;

INSERT INTO outbox_audit (outbox_id, status_to, retry_count, idempotency_key, created_at)
    SELECT k, step.status, 0, 'key-' || k, timestamptz '2026-01-01Z' + k * interval '1 second'
    FROM generate_series(1, {deliveries}) k CROSS JOIN (VALUES ('queued'), ('sending'), ('sent')) AS step (status);

RESET search_path;
RESET session_replication_role;
