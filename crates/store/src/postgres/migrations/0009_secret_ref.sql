-- posthaste: not compatible
-- The random value to which the encrypted secrets of a row are bound, so that they cannot be decrypted in another row.
-- The program draws it for every new row; the default is for existing rows.
-- A volatile default rewrites the table under its exclusive lock. That takes about a second for 100,000 subscriptions;
-- adding the column without values and filling it in steps would need a time in which it may be NULL.
ALTER TABLE posthaste.subscriptions ADD COLUMN secret_ref uuid NOT NULL DEFAULT gen_random_uuid()
    CONSTRAINT uniq_subscription_secret_ref UNIQUE;

CREATE TRIGGER subscription_secret_ref BEFORE UPDATE ON posthaste.subscriptions
    FOR EACH ROW WHEN (OLD.secret_ref <> NEW.secret_ref)
    EXECUTE FUNCTION posthaste.refuse('encrypted secrets are bound to secret_ref');

-- Encrypting the secrets again changes no subscription, so an update of the secrets alone adds no row to the history.
CREATE OR REPLACE TRIGGER subscription_change
    AFTER INSERT OR UPDATE OF event_type, callback_url, active, verified, max_retry_limit, deleted_at, updated_at
    ON posthaste.subscriptions
    FOR EACH ROW EXECUTE FUNCTION posthaste.note_subscription_change();
