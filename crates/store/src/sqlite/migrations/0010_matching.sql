-- posthaste: not compatible
-- Tenants, patterns of event types, attributes and filters; the identity of subscriptions; and what a receiver wants of
-- a request: the twin of PostgreSQL's. A column cannot lose its NOT NULL here, so event_type is added again. New columns
-- get no rule that PostgreSQL states with NOT VALID: the program is the only one that writes this file.

-- ── events ───────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE events ADD COLUMN tenant TEXT
    CONSTRAINT event_tenant_length CHECK (length(tenant) BETWEEN 1 AND 200 AND instr(tenant, char(0)) = 0);
ALTER TABLE events ADD COLUMN attributes TEXT
    CONSTRAINT event_attributes_form CHECK (json_type(attributes) = 'object' AND octet_length(attributes) <= 131072);
ALTER TABLE events ADD COLUMN tracestate TEXT
    CONSTRAINT event_tracestate_length CHECK (length(tracestate) BETWEEN 1 AND 512 AND instr(tracestate, char(0)) = 0);
CREATE TRIGGER event_type_segments BEFORE INSERT ON events
WHEN NEW.event_type GLOB '*..*' OR NEW.event_type GLOB '*.' BEGIN
    SELECT RAISE(ABORT, 'INSERT of events refused: the event type has an empty segment');
END;

DROP TRIGGER compare_events_insert;
DROP VIEW compare_events;
CREATE VIEW compare_events AS
    SELECT NULL AS external_event_id, NULL AS event_type, NULL AS payload, NULL AS attributes, NULL AS tenant WHERE 0;
CREATE TRIGGER compare_events_insert INSTEAD OF INSERT ON compare_events
WHEN EXISTS (SELECT 1 FROM events e WHERE e.external_event_id = NEW.external_event_id
    AND (e.event_type IS NOT NEW.event_type OR e.payload IS NOT NEW.payload
        OR e.attributes IS NOT NEW.attributes OR e.tenant IS NOT NEW.tenant))
BEGIN
    SELECT RAISE(ABORT, 'INSERT of events refused: the external id belongs to another content');
END;

-- ── subscriptions ────────────────────────────────────────────────────────────────────────────────

DROP TRIGGER subscription_deleted;
DROP TRIGGER subscription_change_insert;
DROP TRIGGER subscription_change_update;
DROP INDEX idx_subscription_event_type;

-- event_type is the entry of event_types, a JSON array, if there is exactly one.
ALTER TABLE subscriptions RENAME COLUMN event_type TO one_event_type;
ALTER TABLE subscriptions ADD COLUMN event_type TEXT CONSTRAINT subscription_type_form
    CHECK (octet_length(event_type) <= 200 AND (event_type = '*' OR event_type GLOB '[A-Za-z0-9]*'
        AND rtrim(event_type, '*') NOT GLOB '*[^A-Za-z0-9_.:/-]*' AND instr(event_type, char(0)) = 0));
ALTER TABLE subscriptions ADD COLUMN event_types TEXT
    CONSTRAINT subscription_types_count CHECK (json_array_length(event_types) BETWEEN 1 AND 100);
ALTER TABLE subscriptions ADD COLUMN tenant TEXT CONSTRAINT subscription_tenant_length
    CHECK (length(tenant) BETWEEN 1 AND 200 AND instr(tenant, char(0)) = 0);
ALTER TABLE subscriptions ADD COLUMN filter TEXT
    CONSTRAINT subscription_filter_size CHECK (octet_length(filter) <= 4096);
ALTER TABLE subscriptions ADD COLUMN uid TEXT CONSTRAINT subscription_uid_length
    CHECK (length(uid) BETWEEN 1 AND 200 AND instr(uid, char(0)) = 0);
ALTER TABLE subscriptions ADD COLUMN name TEXT CONSTRAINT subscription_name_length
    CHECK (length(name) BETWEEN 1 AND 200 AND instr(name, char(0)) = 0);
ALTER TABLE subscriptions ADD COLUMN metadata TEXT
    CONSTRAINT subscription_metadata_size CHECK (octet_length(metadata) <= 65536);
ALTER TABLE subscriptions ADD COLUMN signatures TEXT
    CONSTRAINT subscription_signatures_size CHECK (octet_length(signatures) <= 8192);
ALTER TABLE subscriptions ADD COLUMN public_key TEXT
    CONSTRAINT subscription_public_key_length CHECK (length(public_key) <= 100);
ALTER TABLE subscriptions ADD COLUMN public_key_fingerprint TEXT
    CONSTRAINT subscription_public_key_fingerprint_length CHECK (length(public_key_fingerprint) = 22);
ALTER TABLE subscriptions ADD COLUMN headers TEXT
    CONSTRAINT subscription_headers_size CHECK (octet_length(headers) <= 131072);
ALTER TABLE subscriptions ADD COLUMN auth TEXT CONSTRAINT subscription_auth_size CHECK (octet_length(auth) <= 65536);
ALTER TABLE subscriptions ADD COLUMN envelope TEXT NOT NULL DEFAULT 'raw' CONSTRAINT subscription_envelope
    CHECK (envelope IN ('raw', 'standard', 'cloudevents-binary', 'cloudevents-structured'));
ALTER TABLE subscriptions ADD COLUMN older_secret TEXT;
ALTER TABLE subscriptions ADD COLUMN older_secret_expires_at INTEGER
    CONSTRAINT subscription_older_secret_expires CHECK ((older_secret IS NULL) = (older_secret_expires_at IS NULL));
ALTER TABLE subscriptions ADD COLUMN credentials TEXT;
ALTER TABLE subscriptions ADD COLUMN verification_method TEXT CONSTRAINT subscription_verification_method
    CHECK (verification_method IN ('challenge', 'cloudevents', 'asserted'));
ALTER TABLE subscriptions ADD COLUMN verified_at INTEGER;
ALTER TABLE subscriptions ADD COLUMN verified_by TEXT
    CONSTRAINT subscription_verified_by_length CHECK (length(verified_by) <= 300);
ALTER TABLE subscriptions ADD COLUMN allowed_per_minute INTEGER
    CONSTRAINT subscription_allowed_range CHECK (allowed_per_minute >= 1);
ALTER TABLE subscriptions ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
UPDATE subscriptions SET event_type = one_event_type, event_types = json_array(one_event_type);
ALTER TABLE subscriptions DROP COLUMN one_event_type;

CREATE INDEX idx_subscription_event_type ON subscriptions (event_type);
CREATE UNIQUE INDEX uniq_subscription_uid ON subscriptions (coalesce(tenant, ''), uid)
    WHERE uid IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX idx_subscription_fingerprint ON subscriptions (public_key_fingerprint)
    WHERE public_key_fingerprint IS NOT NULL;

CREATE TRIGGER subscription_deleted BEFORE UPDATE ON subscriptions WHEN OLD.deleted_at IS NOT NULL BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscriptions refused: a deleted subscription never comes back');
END;
CREATE TRIGGER subscription_tenant BEFORE UPDATE ON subscriptions WHEN OLD.tenant IS NOT NEW.tenant BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscriptions refused: a subscription never moves to another tenant');
END;
CREATE TRIGGER subscription_event_type_present BEFORE INSERT ON subscriptions
WHEN NEW.event_types IS NULL AND NEW.event_type IS NULL BEGIN
    SELECT RAISE(ABORT, 'INSERT of subscriptions refused: event_types is missing');
END;
-- A row that is written with an event type alone has a list of one.
CREATE TRIGGER subscription_event_types_insert AFTER INSERT ON subscriptions WHEN NEW.event_types IS NULL BEGIN
    UPDATE subscriptions SET event_types = json_array(NEW.event_type) WHERE id = NEW.id;
END;
CREATE TRIGGER subscription_event_types_update AFTER UPDATE OF event_type ON subscriptions
WHEN NEW.event_type IS NOT OLD.event_type AND NEW.event_type IS NOT NULL AND NEW.event_types IS OLD.event_types BEGIN
    UPDATE subscriptions SET event_types = json_array(NEW.event_type) WHERE id = NEW.id;
END;

-- ── patterns ─────────────────────────────────────────────────────────────────────────────────────

-- The patterns that a subscription has or had. The tenant of a subscription without one is ''. The router probes the
-- current ones; explain and doctor also find subscriptions by the patterns that they had.
CREATE TABLE subscription_patterns (
    tenant          TEXT NOT NULL,
    pattern         TEXT NOT NULL,
    subscription_id INTEGER NOT NULL,
    current         INTEGER NOT NULL CHECK (current IN (0, 1)),
    PRIMARY KEY (tenant, pattern, subscription_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_subscription_pattern ON subscription_patterns (tenant, pattern, subscription_id) WHERE current = 1;
CREATE INDEX idx_subscription_pattern_owner ON subscription_patterns (subscription_id) WHERE current = 1;
INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT '', s.event_type, s.id, s.deleted_at IS NULL FROM subscriptions s;
INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT DISTINCT '', c.event_type, c.subscription_id, 0 FROM subscription_changes c
    WHERE true
    ON CONFLICT DO NOTHING;

CREATE TRIGGER subscription_pattern_insert AFTER INSERT ON subscriptions
WHEN NEW.event_types IS NOT NULL AND NEW.deleted_at IS NULL BEGIN
    INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
        SELECT DISTINCT coalesce(NEW.tenant, ''), entry.value, NEW.id, 1 FROM json_each(NEW.event_types) AS entry;
END;
CREATE TRIGGER subscription_pattern_update AFTER UPDATE OF event_types, deleted_at ON subscriptions
WHEN NEW.event_types IS NOT OLD.event_types OR NEW.deleted_at IS NOT NULL BEGIN
    UPDATE subscription_patterns SET current = 0 WHERE subscription_id = NEW.id AND current = 1
        AND (NEW.deleted_at IS NOT NULL
            OR pattern NOT IN (SELECT entry.value FROM json_each(NEW.event_types) AS entry));
    INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
        SELECT DISTINCT coalesce(NEW.tenant, ''), entry.value, NEW.id, 1 FROM json_each(NEW.event_types) AS entry
        WHERE NEW.deleted_at IS NULL
        ON CONFLICT (tenant, pattern, subscription_id) DO UPDATE SET current = 1;
END;

-- ── history ──────────────────────────────────────────────────────────────────────────────────────

-- Everything that matching depends on. Rows from before have a list of one.
DROP TRIGGER subscription_change_immutable_update;
DROP INDEX idx_subscription_change_type;
ALTER TABLE subscription_changes RENAME COLUMN event_type TO one_event_type;
ALTER TABLE subscription_changes ADD COLUMN event_type TEXT;
ALTER TABLE subscription_changes ADD COLUMN tenant TEXT;
ALTER TABLE subscription_changes ADD COLUMN event_types TEXT;
ALTER TABLE subscription_changes ADD COLUMN filter TEXT;
UPDATE subscription_changes SET event_type = one_event_type;
ALTER TABLE subscription_changes DROP COLUMN one_event_type;
CREATE TRIGGER subscription_change_immutable_update BEFORE UPDATE ON subscription_changes BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscription_changes refused: changes are append only');
END;

CREATE TRIGGER subscription_change_insert AFTER INSERT ON subscriptions BEGIN
    INSERT INTO subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at, tenant,
            event_types, filter)
        VALUES (NEW.id, NEW.event_type, NEW.callback_url, NEW.active, NEW.verified, NEW.max_retry_limit, NEW.deleted_at,
            NEW.updated_at, NEW.tenant, coalesce(NEW.event_types, json_array(NEW.event_type)), NEW.filter);
END;
-- Encrypting the secrets again changes no subscription, so an update of the secrets alone adds no row to the history.
-- Changes of event_types and filter also set updated_at.
CREATE TRIGGER subscription_change_update
AFTER UPDATE OF event_type, callback_url, active, verified, max_retry_limit, deleted_at, updated_at ON subscriptions
BEGIN
    INSERT INTO subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at, tenant,
            event_types, filter)
        SELECT s.id, s.event_type, s.callback_url, s.active, s.verified, s.max_retry_limit, s.deleted_at, s.updated_at,
            s.tenant, s.event_types, s.filter
        FROM subscriptions s WHERE s.id = NEW.id;
END;

-- ── keys ─────────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE api_keys ADD COLUMN tenant TEXT
    CONSTRAINT key_tenant_length CHECK (length(tenant) BETWEEN 1 AND 200 AND instr(tenant, char(0)) = 0);
CREATE TRIGGER key_tenant BEFORE UPDATE ON api_keys WHEN OLD.tenant IS NOT NEW.tenant BEGIN
    SELECT RAISE(ABORT, 'UPDATE of api_keys refused: the tenant of a key never changes: create another key');
END;

-- ── message ids ──────────────────────────────────────────────────────────────────────────────────

-- The key from which the ids of messages are derived. It never changes: a receiver recognizes a repeated message by its
-- id. Events up to plain_up_to keep the ids that they had before this migration.
CREATE TABLE message_id_key (
    id          INTEGER PRIMARY KEY CONSTRAINT message_id_key_single CHECK (id = 1),
    key         BLOB NOT NULL CONSTRAINT message_id_key_length CHECK (octet_length(key) = 32),
    plain_up_to INTEGER NOT NULL
) STRICT;
INSERT INTO message_id_key (id, key, plain_up_to)
    SELECT 1, randomblob(32), coalesce((SELECT max(id) FROM events), 0);
CREATE TRIGGER message_id_key_update BEFORE UPDATE ON message_id_key BEGIN
    SELECT RAISE(ABORT, 'UPDATE of message_id_key refused: receivers recognize messages by ids made with this key');
END;
CREATE TRIGGER message_id_key_delete BEFORE DELETE ON message_id_key BEGIN
    SELECT RAISE(ABORT, 'DELETE of message_id_key refused: receivers recognize messages by ids made with this key');
END;
