-- role: subscription_admin
-- Inserts a subscription and returns it. Returns no row if another subscription of the tenant has the uid.
-- index: uniq_subscription_uid, for the conflict only.
INSERT INTO posthaste.subscriptions
    (
        tenant, uid, name, metadata, event_type, event_types, filter, callback_url, active, max_retry_limit,
        timeout_ms, description, signatures, public_key, headers, auth, envelope, secret_ref, secret, credentials,
        created_at, updated_at, public_key_fingerprint
    )
VALUES (
    $1::text, $2::text, $3::text, $4::text, $5::text, $6::text[], $7::text, $8::text, $9::boolean, $10::integer,
    $11::integer, $12::text, $13::text, $14::text, $15::text, $16::text, $17::text, $18::uuid, $19::text, $20::text,
    $21::timestamptz, $21::timestamptz, $22::text
)
ON CONFLICT (coalesce(tenant, ''), uid) WHERE uid IS NOT NULL AND deleted_at IS NULL DO NOTHING
RETURNING {subscription}
