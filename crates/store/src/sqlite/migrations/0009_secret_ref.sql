-- posthaste: not compatible
-- The random value to which the encrypted secrets of a row are bound, so that they cannot be decrypted in another row.
-- The program draws it for every new row. SQLite cannot add a column that is NOT NULL and has no constant default;
-- a trigger refuses rows without a value instead. The triggers on updates are created again below: the update of the
-- existing rows must also reach deleted subscriptions, and it must not add rows to the history.
DROP TRIGGER subscription_deleted;
DROP TRIGGER subscription_change_update;

ALTER TABLE subscriptions ADD COLUMN secret_ref BLOB
    CONSTRAINT subscription_secret_ref_length CHECK (octet_length(secret_ref) = 16);
UPDATE subscriptions SET secret_ref = randomblob(16);
CREATE UNIQUE INDEX uniq_subscription_secret_ref ON subscriptions (secret_ref);

CREATE TRIGGER subscription_deleted BEFORE UPDATE ON subscriptions WHEN OLD.deleted_at IS NOT NULL BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscriptions refused: a deleted subscription never comes back');
END;
CREATE TRIGGER subscription_secret_ref_present BEFORE INSERT ON subscriptions WHEN NEW.secret_ref IS NULL BEGIN
    SELECT RAISE(ABORT, 'INSERT of subscriptions refused: secret_ref is missing');
END;
CREATE TRIGGER subscription_secret_ref BEFORE UPDATE ON subscriptions WHEN OLD.secret_ref IS NOT NEW.secret_ref BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscriptions refused: encrypted secrets are bound to secret_ref');
END;

-- Encrypting the secrets again changes no subscription, so an update of the secrets alone adds no row to the history.
CREATE TRIGGER subscription_change_update
AFTER UPDATE OF event_type, callback_url, active, verified, max_retry_limit, deleted_at, updated_at ON subscriptions
BEGIN
    INSERT INTO subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at)
        VALUES (NEW.id, NEW.event_type, NEW.callback_url, NEW.active, NEW.verified, NEW.max_retry_limit, NEW.deleted_at, NEW.updated_at);
END;
