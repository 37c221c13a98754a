-- What people change: one row for each change, written in its transaction by the role that makes it. The server sets
-- id and time: no role may insert those columns. A new table, for which no running process waits.

CREATE TABLE posthaste.operator_audit (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    key_id         bigint,
    key_name       text CONSTRAINT operator_audit_key_name CHECK (char_length(key_name) BETWEEN 1 AND 200),
    client_address text CONSTRAINT operator_audit_address CHECK (char_length(client_address) BETWEEN 1 AND 45),
    action         text NOT NULL CONSTRAINT operator_audit_action CHECK (action ~ '^[a-z_]{1,100}$'),
    object         text NOT NULL CONSTRAINT operator_audit_object CHECK (char_length(object) BETWEEN 1 AND 200),
    before         json CONSTRAINT operator_audit_before CHECK (octet_length(before::text) <= 65536),
    after          json CONSTRAINT operator_audit_after CHECK (octet_length(after::text) <= 65536),
    CONSTRAINT operator_audit_key CHECK (key_id IS NULL OR key_name IS NOT NULL),
    CONSTRAINT operator_audit_known CHECK (key_name IS NOT NULL OR action = 'sign_in_failed')
);

CREATE TRIGGER operator_audit_immutable BEFORE UPDATE OR DELETE ON posthaste.operator_audit
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('the audit is append only');
CREATE TRIGGER operator_audit_truncate BEFORE TRUNCATE ON posthaste.operator_audit
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('the audit is append only');
