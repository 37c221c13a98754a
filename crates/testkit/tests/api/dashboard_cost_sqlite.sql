-- Fixture of dashboard_cost.rs: the same rows as dashboard_cost_postgres.sql. SQLite stores tables in key order.

BEGIN;
CREATE TEMP TABLE numbers (k INTEGER PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE counted (k) AS
    (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < {deliveries})
    SELECT k FROM counted;

INSERT INTO subscriptions
    (id, event_type, event_types, callback_url, verified, secret_ref, secret, created_at, updated_at)
    SELECT k, 'kind.' || k, json_array('kind.' || k), 'https://receiver.example/hook/' || k, 1, randomblob(16),
        'secret-' || k, 1767225600000000, 1767225600000000
    FROM numbers WHERE k <= 10;

INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT '', 'kind.' || k, k, 1 FROM numbers WHERE k <= 10;

INSERT INTO subscription_changes (subscription_id, event_type, callback_url, active, verified, changed_at)
    SELECT k, 'kind.' || k, 'https://receiver.example/hook/' || k, 1, 1, 1767225600000000 FROM numbers WHERE k <= 10;

INSERT INTO events (id, external_event_id, event_type, payload, created_at)
    SELECT k, 'external-' || k, 'kind.' || (1 + k % 10), '{"order": ' || k || '}', 1767225600000000 + k * 1000000
        FROM numbers;

INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, status, attempt_count, next_attempt_at,
        final_error_code, requeued_from, created_at, updated_at)
    SELECT k, k, 1 + k % 10, iif(k % 2 = 0, 'DeadLettered', 'Completed'), 1, 1767225600000000 + k * 1000000,
        iif(k % 2 = 0, 'HTTP_500', NULL), iif(k % 2 = 1 AND k > 1, k / 2, NULL), 1767225600000000 + k * 1000000,
            1767225600000000 + k * 1000000
    FROM numbers;

INSERT INTO webhook_delivery_jobs (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id,
        response_status, error_code, duration_ms, created_at)
    SELECT k, k, iif(k % 2 = 0, 'Failed', 'Completed'), 1767225600000000 + k * 1000000, 1767225600000000 + k * 1000000,
        zeroblob(16), 'worker-1', 200,
        iif(k % 2 = 0, 'HTTP_500', NULL), 7, 1767225600000000 + k * 1000000
    FROM numbers;

INSERT INTO dead_letters (id, saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    SELECT k, 2 * k, 2 * k, 1 + 2 * k % 10, 'HTTP_500', 1767225600000000 + k * 2000000, '{"order": ' || k || '}'
    FROM numbers WHERE k <= {deliveries} / 2;

INSERT INTO outbox_orders (id, idempotency_key, request_json, request_digest, status, retry_count,
        next_attempt_at, created_at, updated_at)
    SELECT k, 'key-' || k, '{"symbol": "USDJPY"}', printf('sha256:%064x', k), iif(k % 10 = 0, 'dead', 'sent'), 0,
        1767225600000000 + k * 1000000, 1767225600000000 + k * 1000000, 1767225600000000 + k * 1000000
    FROM numbers;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT 'key-' || k, printf('sha256:%064x', k), 1830297600000000 + k * 1000000 FROM numbers;

INSERT INTO outbox_audit (outbox_id, status_to, retry_count, idempotency_key, created_at)
    SELECT k, step.value, 0, 'key-' || k, 1767225600000000 + k * 1000000
    FROM numbers CROSS JOIN json_each('["queued", "sending", "sent"]') AS step;

DROP TABLE numbers;
COMMIT;
ANALYZE;
