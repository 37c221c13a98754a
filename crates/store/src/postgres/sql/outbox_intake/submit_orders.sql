-- role: outbox_writer
-- Inserts new orders, each with its ledger row, and returns them.
-- index: uniq_order_idempotency_key detects duplicates.
-- The caller sorts by key, so that two batches cannot deadlock. Of two concurrent submissions of one key, the second
-- waits for the commit of the first, for at most lock_timeout.
WITH made AS (
    INSERT INTO posthaste.outbox_orders
        (idempotency_key, request_json, request_digest, trace_id, next_attempt_at, created_at, updated_at)
    SELECT unnest($1::text[]), unnest($2::text[])::jsonb, unnest($3::text[]), unnest($4::text[]),
        $5::timestamptz, $5::timestamptz, $5::timestamptz
    WHERE (SELECT set_config('lock_timeout', '2s', true)) IS NOT NULL
    ON CONFLICT (idempotency_key) DO NOTHING
    RETURNING id, idempotency_key, status, retry_count, next_attempt_at, last_error, trace_id, broker_order_id,
        request_digest, result_digest, result_json, maybe_executed, created_at, updated_at
), ledger AS (
    INSERT INTO posthaste.idempo_ledger (idempotency_key, request_digest, expires_at)
    SELECT made.idempotency_key, made.request_digest, $6::timestamptz FROM made
    ON CONFLICT (idempotency_key) DO NOTHING
)
SELECT * FROM made
