-- What people change: one row for each change, written in its transaction by the role that makes it. The twin of
-- PostgreSQL's; the time is the process's clock, as everywhere in this engine.

CREATE TABLE operator_audit (
    id             INTEGER PRIMARY KEY,
    created_at     INTEGER NOT NULL,
    key_id         INTEGER,
    key_name       TEXT CONSTRAINT operator_audit_key_name CHECK (length(key_name) BETWEEN 1 AND 200 AND instr(key_name, char(0)) = 0),
    client_address TEXT CONSTRAINT operator_audit_address CHECK (length(client_address) BETWEEN 1 AND 45),
    action         TEXT NOT NULL CONSTRAINT operator_audit_action CHECK (length(action) BETWEEN 1 AND 100 AND action NOT GLOB '*[^a-z_]*'),
    object         TEXT NOT NULL CONSTRAINT operator_audit_object CHECK (length(object) BETWEEN 1 AND 200),
    before         TEXT CONSTRAINT operator_audit_before CHECK (octet_length(before) <= 65536 AND json_valid(before)),
    after          TEXT CONSTRAINT operator_audit_after CHECK (octet_length(after) <= 65536 AND json_valid(after)),
    CONSTRAINT operator_audit_key CHECK (key_id IS NULL OR key_name IS NOT NULL),
    CONSTRAINT operator_audit_known CHECK (key_name IS NOT NULL OR action = 'sign_in_failed')
) STRICT;

CREATE TRIGGER operator_audit_immutable_update BEFORE UPDATE ON operator_audit BEGIN
    SELECT RAISE(ABORT, 'UPDATE of operator_audit refused: the audit is append only');
END;
CREATE TRIGGER operator_audit_immutable_delete BEFORE DELETE ON operator_audit BEGIN
    SELECT RAISE(ABORT, 'DELETE of operator_audit refused: the audit is append only');
END;
