-- role: subscription_admin
-- index: primary key of subscriptions
-- Writes the whole row, because core has applied the change to the row that this transaction read. The credentials
-- ?26 are written only if ?25 is true.
UPDATE subscriptions
SET
    uid = ?2, name = ?3, metadata = ?4, event_type = ?5, event_types = ?6, filter = ?7, callback_url = ?8, active =
    ?9, verified = ?10, verification_method = ?11, verified_at = ?12, verified_by = ?13, allowed_per_minute = ?14,
    max_retry_limit = ?15, timeout_ms = ?16, description = ?17, signatures = ?18, public_key = ?19, headers = ?20,
    auth = ?21, envelope = ?22, revision = ?23, updated_at = ?24,
    credentials = CASE WHEN ?25 THEN ?26 ELSE credentials END,
    public_key_fingerprint = ?27
WHERE id = ?1 AND deleted_at IS NULL
