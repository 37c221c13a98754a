-- role: subscription_admin
-- Writes the whole row, because core has applied the change to the row that this transaction locked. The credentials
-- $26 are written only if $25 is true.
-- index: subscriptions_pkey.
UPDATE posthaste.subscriptions s
SET
    uid = $2::text, name = $3::text, metadata = $4::text, event_type = $5::text, event_types = $6::text[], filter =
    $7::text, callback_url = $8::text, active = $9::boolean, verified = $10::boolean, verification_method =
    $11::text, verified_at = $12::timestamptz, verified_by = $13::text, allowed_per_minute = $14::integer,
    max_retry_limit = $15::integer, timeout_ms = $16::integer, description = $17::text, signatures = $18::text,
    public_key = $19::text, headers = $20::text, auth = $21::text, envelope = $22::text, revision = $23::bigint,
    updated_at = $24::timestamptz,
    credentials = CASE WHEN $25::boolean THEN $26::text ELSE s.credentials END,
    public_key_fingerprint = $27::text
WHERE s.id = $1::bigint AND s.deleted_at IS NULL
