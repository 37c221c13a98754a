-- role: subscription_admin
-- Inserts a subscription and returns it. Returns no row if another subscription of the tenant has the uid.
-- index: uniq_subscription_uid, for the conflict only
INSERT INTO subscriptions
    (
        tenant, uid, name, metadata, event_type, event_types, filter, callback_url, active, max_retry_limit,
        timeout_ms, description, signatures, public_key, headers, auth, envelope, secret_ref, secret, credentials,
        created_at, updated_at, public_key_fingerprint
    )
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?21,
    ?22
)
ON CONFLICT (coalesce(tenant, ''), uid) WHERE uid IS NOT NULL AND deleted_at IS NULL DO NOTHING
RETURNING {subscription}
