-- The data of an installation of version 0.1, for both engines; previous.rs inserts the placeholders in braces. Rows 1
-- to 10 of the deliveries are completed, 11 to 15 are dead letters, 16 to 20 wait for a retry. Events 21 to 30 are not
-- yet routed. Triggers are disabled, so that rows can be inserted in their final state.

INSERT INTO subscriptions (event_type, callback_url, verified, secret, created_at, updated_at)
    VALUES ('a', 'https://receiver.example/hook', {true}, 'whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0', {time}, {time});

INSERT INTO events (external_event_id, event_type, payload, created_at)
    WITH RECURSIVE numbers (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM numbers WHERE k < 30)
    SELECT 'external-' || k, 'a', '{"order": 1}', {time} FROM numbers ORDER BY k;

INSERT INTO routing_queue (event_id) SELECT e.id FROM events e WHERE e.id > 20;

INSERT INTO webhook_delivery_sagas
        (event_id, subscription_id, status, attempt_count, next_attempt_at, final_error_code, created_at, updated_at)
    SELECT e.id, 1,
        CASE WHEN e.id <= 10 THEN 'Completed'{saga} WHEN e.id <= 15 THEN 'DeadLettered'{saga} ELSE 'PendingRetry'{saga} END,
        1, {later}, CASE WHEN e.id > 10 THEN 'HTTP_500' END, {time}, {time}
    FROM events e WHERE e.id <= 20 ORDER BY e.id;

INSERT INTO webhook_delivery_jobs (saga_id, status, lease_until, attempt_at, response_status, error_code, created_at)
    SELECT g.id, CASE WHEN g.id <= 10 THEN 'Completed'{job} ELSE 'Failed'{job} END, {time}, {time},
        CASE WHEN g.id <= 10 THEN 200 ELSE 500 END, CASE WHEN g.id > 10 THEN 'HTTP_500' END, {time}
    FROM webhook_delivery_sagas g ORDER BY g.id;

INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
    SELECT g.id, g.event_id, 1, 'HTTP_500', {time}, '{"order": 1}' FROM webhook_delivery_sagas g
    WHERE g.id BETWEEN 11 AND 15 ORDER BY g.id;

INSERT INTO outbox_orders
        (idempotency_key, request_json, request_digest, status, next_attempt_at, created_at, updated_at)
    SELECT 'key-' || e.id, '{"symbol": "USDJPY"}', 'sha256:' || e.id, 'sent', {time}, {time}, {time}
    FROM events e WHERE e.id <= 10 ORDER BY e.id;

INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT o.idempotency_key, o.request_digest, {time} FROM outbox_orders o;
