-- posthaste: not compatible
-- Tenants, patterns of event types, attributes and filters; the identity of subscriptions; and what a receiver wants of
-- a request. A router of an earlier version would ignore tenants and filters, so all processes are stopped before this
-- migration. It scans no table of events: new columns are NULL, and new rules hold for new rows only (NOT VALID).

-- ── events ───────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE posthaste.events
    ADD COLUMN tenant text COLLATE "C",
    ADD COLUMN attributes json,
    ADD COLUMN tracestate text COLLATE "C",
    ADD CONSTRAINT event_type_segments CHECK (event_type NOT LIKE '%..%' AND event_type NOT LIKE '%.') NOT VALID,
    ADD CONSTRAINT event_tenant_length CHECK (char_length(tenant) BETWEEN 1 AND 200) NOT VALID,
    ADD CONSTRAINT event_attributes_form
        CHECK (json_typeof(attributes) = 'object' AND octet_length(attributes::text) <= 131072) NOT VALID,
    ADD CONSTRAINT event_tracestate_length CHECK (char_length(tracestate) BETWEEN 1 AND 512) NOT VALID;

-- Raises an error unless the attributes are valid, and returns them, or NULL if there are none. The same rules as
-- Attributes::parse of the core.
CREATE FUNCTION posthaste.check_attributes(attributes json) RETURNS json
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named record;
    names text[] := '{}';
BEGIN
    IF attributes IS NULL THEN
        RETURN NULL;
    ELSIF json_typeof(attributes) <> 'object' THEN
        RAISE EXCEPTION 'attributes must be a JSON object' USING ERRCODE = 'check_violation';
    END IF;
    FOR named IN SELECT m.key AS name, m.value, json_typeof(m.value) AS kind, m.value #>> '{}' AS text
        FROM json_each(attributes) AS m
    LOOP
        IF named.name !~ '^[a-z0-9]{1,64}$'
            OR named.name IN ('id', 'type', 'specversion', 'data', 'datacontenttype') THEN
            RAISE EXCEPTION 'the name of attribute % must be 1 to 64 lower-case letters and digits, and none of id, type, specversion, data, datacontenttype',
                quote_literal(left(named.name, 100)) USING ERRCODE = 'check_violation';
        ELSIF named.name = ANY (names) THEN
            RAISE EXCEPTION 'attribute % is given twice', named.name USING ERRCODE = 'check_violation';
        ELSIF named.kind NOT IN ('string', 'number', 'boolean') THEN
            RAISE EXCEPTION 'attribute % must be text, a number or a boolean', named.name USING ERRCODE = 'check_violation';
        ELSIF named.name IN ('source', 'subject', 'time', 'dataschema') AND named.kind <> 'string' THEN
            RAISE EXCEPTION 'attribute % must be text', named.name USING ERRCODE = 'check_violation';
        ELSIF named.name = 'time' AND named.text !~* '^\d{4}-\d\d-\d\d[t ]\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$' THEN
            RAISE EXCEPTION 'attribute time must be a time of RFC 3339' USING ERRCODE = 'check_violation';
        ELSIF named.kind = 'string' AND char_length(named.text) NOT BETWEEN 1 AND 1024 THEN
            RAISE EXCEPTION 'attribute % must have 1 to 1024 characters', named.name USING ERRCODE = 'check_violation';
        ELSIF named.kind = 'number' THEN
            PERFORM named.text::double precision;
        END IF;
        names := names || named.name;
    END LOOP;
    IF cardinality(names) > 20 THEN
        RAISE EXCEPTION 'an event has at most 20 attributes' USING ERRCODE = 'check_violation';
    END IF;
    RETURN CASE WHEN cardinality(names) > 0 THEN attributes END;
END $$;

-- As before, with attributes and tenant, which are part of the content.
CREATE FUNCTION posthaste.publish(event_type text, payload json, external_event_id text DEFAULT NULL,
    attributes json DEFAULT NULL, tenant text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    event_id bigint;
    is_same boolean;
    given json := posthaste.check_attributes(publish.attributes);
BEGIN
    IF starts_with(publish.event_type, 'posthaste.') THEN
        RAISE EXCEPTION 'event types that start with posthaste. are reserved' USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO posthaste.events (event_type, payload, external_event_id, attributes, tenant)
        VALUES (publish.event_type, publish.payload, publish.external_event_id, given, publish.tenant)
        ON CONFLICT (external_event_id) DO NOTHING
        RETURNING id INTO event_id;
    IF event_id IS NOT NULL THEN
        RETURN event_id;
    END IF;
    SELECT e.id, e.event_type = publish.event_type AND e.payload::text = publish.payload::text
            AND e.attributes::jsonb IS NOT DISTINCT FROM given::jsonb AND e.tenant IS NOT DISTINCT FROM publish.tenant
        INTO STRICT event_id, is_same
        FROM posthaste.events e WHERE e.external_event_id = publish.external_event_id;
    IF NOT is_same THEN
        RAISE EXCEPTION 'the external_event_id belongs to event %, which has another event_type, payload, attributes or tenant', event_id
            USING ERRCODE = 'unique_violation', SCHEMA = 'posthaste', TABLE = 'events',
                CONSTRAINT = 'uniq_event_external_id';
    END IF;
    RETURN event_id;
END $$;
REVOKE ALL ON FUNCTION posthaste.publish(text, json, text, json, text) FROM PUBLIC;
-- Next to the old function, a call with three arguments would be ambiguous. Rights that were granted by hand move along.
DO $$
DECLARE
    publisher name;
BEGIN
    FOR publisher IN
        SELECT r.rolname
        FROM pg_proc p
        CROSS JOIN LATERAL aclexplode(p.proacl) AS granted
        JOIN pg_roles r ON r.oid = granted.grantee
        WHERE p.oid = 'posthaste.publish(text, json, text)'::regprocedure AND granted.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION posthaste.publish(text, json, text, json, text) TO %I', publisher);
    END LOOP;
END $$;
DROP FUNCTION posthaste.publish(text, json, text);

DROP FUNCTION posthaste.compare_events(text[], text[], json[]);
CREATE FUNCTION posthaste.compare_events(external_event_ids text[], event_types text[], payloads json[],
    attributes json[], tenants text[])
RETURNS TABLE (place bigint, event_id bigint, is_same boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT given.place, e.id, e.event_type = given.event_type AND e.payload::text = given.payload::text
        AND e.attributes::jsonb IS NOT DISTINCT FROM given.attributes::jsonb AND e.tenant IS NOT DISTINCT FROM given.tenant
    FROM unnest(external_event_ids, event_types, payloads, attributes, tenants) WITH ORDINALITY
        AS given (external_event_id, event_type, payload, attributes, tenant, place)
    CROSS JOIN LATERAL (
        SELECT known.* FROM posthaste.events known WHERE known.external_event_id = given.external_event_id LIMIT 1
    ) e
$$;

-- ── subscriptions ────────────────────────────────────────────────────────────────────────────────

-- event_type is the entry of event_types if there is exactly one.
ALTER TABLE posthaste.subscriptions
    ALTER COLUMN event_type DROP NOT NULL,
    DROP CONSTRAINT subscription_type_form,
    ADD CONSTRAINT subscription_type_form
        CHECK (char_length(event_type) <= 200 AND event_type ~ '^([A-Za-z0-9][A-Za-z0-9_.:/-]*(\.\*)?|\*)$'),
    ADD COLUMN tenant text COLLATE "C" CONSTRAINT subscription_tenant_length CHECK (char_length(tenant) BETWEEN 1 AND 200),
    ADD COLUMN event_types text[] COLLATE "C"
        CONSTRAINT subscription_types_count CHECK (cardinality(event_types) BETWEEN 1 AND 100),
    ADD COLUMN filter text CONSTRAINT subscription_filter_size CHECK (octet_length(filter) <= 4096),
    ADD COLUMN uid text COLLATE "C" CONSTRAINT subscription_uid_length CHECK (char_length(uid) BETWEEN 1 AND 200),
    ADD COLUMN name text CONSTRAINT subscription_name_length CHECK (char_length(name) BETWEEN 1 AND 200),
    ADD COLUMN metadata text CONSTRAINT subscription_metadata_size CHECK (octet_length(metadata) <= 65536),
    ADD COLUMN signatures text CONSTRAINT subscription_signatures_size CHECK (octet_length(signatures) <= 8192),
    ADD COLUMN public_key text CONSTRAINT subscription_public_key_length CHECK (char_length(public_key) <= 100),
    ADD COLUMN public_key_fingerprint text COLLATE "C"
        CONSTRAINT subscription_public_key_fingerprint_length CHECK (char_length(public_key_fingerprint) = 22),
    ADD COLUMN headers text CONSTRAINT subscription_headers_size CHECK (octet_length(headers) <= 131072),
    ADD COLUMN auth text CONSTRAINT subscription_auth_size CHECK (octet_length(auth) <= 65536),
    ADD COLUMN envelope text NOT NULL DEFAULT 'raw' CONSTRAINT subscription_envelope
        CHECK (envelope IN ('raw', 'standard', 'cloudevents-binary', 'cloudevents-structured')),
    ADD COLUMN older_secret text,
    ADD COLUMN older_secret_expires_at timestamptz,
    ADD COLUMN credentials text,
    ADD COLUMN verification_method text CONSTRAINT subscription_verification_method
        CHECK (verification_method IN ('challenge', 'cloudevents', 'asserted')),
    ADD COLUMN verified_at timestamptz,
    ADD COLUMN verified_by text CONSTRAINT subscription_verified_by_length CHECK (char_length(verified_by) <= 300),
    ADD COLUMN allowed_per_minute integer CONSTRAINT subscription_allowed_range CHECK (allowed_per_minute >= 1),
    ADD COLUMN revision bigint NOT NULL DEFAULT 1,
    ADD CONSTRAINT subscription_older_secret_expires CHECK ((older_secret IS NULL) = (older_secret_expires_at IS NULL));

-- Also deleted subscriptions get their list of types.
ALTER TABLE posthaste.subscriptions DISABLE TRIGGER subscription_deleted;
UPDATE posthaste.subscriptions SET event_types = ARRAY[event_type];
ALTER TABLE posthaste.subscriptions ENABLE TRIGGER subscription_deleted;
ALTER TABLE posthaste.subscriptions ALTER COLUMN event_types SET NOT NULL;

CREATE UNIQUE INDEX uniq_subscription_uid ON posthaste.subscriptions (coalesce(tenant, ''), uid)
    WHERE uid IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX idx_subscription_fingerprint ON posthaste.subscriptions (public_key_fingerprint)
    WHERE public_key_fingerprint IS NOT NULL;

-- A row that is written with an event type alone has a list of one.
CREATE FUNCTION posthaste.complete_event_types() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.event_types IS NULL OR (TG_OP = 'UPDATE' AND NEW.event_types = OLD.event_types
        AND NEW.event_type IS DISTINCT FROM OLD.event_type) THEN
        NEW.event_types := ARRAY[NEW.event_type];
    END IF;
    NEW.event_type := CASE WHEN cardinality(NEW.event_types) = 1 THEN NEW.event_types[1] END;
    RETURN NEW;
END $$;
CREATE TRIGGER subscription_event_types BEFORE INSERT OR UPDATE OF event_type, event_types ON posthaste.subscriptions
    FOR EACH ROW EXECUTE FUNCTION posthaste.complete_event_types();
CREATE TRIGGER subscription_tenant BEFORE UPDATE ON posthaste.subscriptions
    FOR EACH ROW WHEN (OLD.tenant IS DISTINCT FROM NEW.tenant)
    EXECUTE FUNCTION posthaste.refuse('a subscription never moves to another tenant');

-- ── patterns ─────────────────────────────────────────────────────────────────────────────────────

-- The patterns that a subscription has or had. The tenant of a subscription without one is ''. The router probes the
-- current ones; explain and doctor also find subscriptions by the patterns that they had.
CREATE TABLE posthaste.subscription_patterns (
    tenant          text COLLATE "C" NOT NULL,
    pattern         text COLLATE "C" NOT NULL,
    subscription_id bigint NOT NULL,
    current         boolean NOT NULL,
    PRIMARY KEY (tenant, pattern, subscription_id)
);
CREATE INDEX idx_subscription_pattern ON posthaste.subscription_patterns (tenant, pattern, subscription_id) WHERE current;
CREATE INDEX idx_subscription_pattern_owner ON posthaste.subscription_patterns (subscription_id) WHERE current;
INSERT INTO posthaste.subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT '', s.event_type, s.id, s.deleted_at IS NULL FROM posthaste.subscriptions s;
INSERT INTO posthaste.subscription_patterns (tenant, pattern, subscription_id, current)
    SELECT DISTINCT '', c.event_type, c.subscription_id, false FROM posthaste.subscription_changes c
    ON CONFLICT DO NOTHING;

CREATE FUNCTION posthaste.note_subscription_patterns() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE posthaste.subscription_patterns p SET current = false
        WHERE p.subscription_id = NEW.id AND p.current
            AND (NEW.deleted_at IS NOT NULL OR p.pattern <> ALL (NEW.event_types));
    INSERT INTO posthaste.subscription_patterns AS p (tenant, pattern, subscription_id, current)
        SELECT DISTINCT coalesce(NEW.tenant, ''), entry.pattern, NEW.id, true
        FROM unnest(NEW.event_types) AS entry (pattern)
        WHERE NEW.deleted_at IS NULL
        ON CONFLICT (tenant, pattern, subscription_id) DO UPDATE SET current = true WHERE NOT p.current;
    RETURN NULL;
END $$;
CREATE TRIGGER subscription_pattern AFTER INSERT OR UPDATE OF event_type, event_types, deleted_at ON posthaste.subscriptions
    FOR EACH ROW EXECUTE FUNCTION posthaste.note_subscription_patterns();

-- ── history ──────────────────────────────────────────────────────────────────────────────────────

-- Everything that matching depends on. Rows from before have event_type alone.
ALTER TABLE posthaste.subscription_changes
    ALTER COLUMN event_type DROP NOT NULL,
    ADD COLUMN tenant text COLLATE "C",
    ADD COLUMN event_types text[] COLLATE "C",
    ADD COLUMN filter text;
DROP INDEX posthaste.idx_subscription_change_type;

CREATE OR REPLACE FUNCTION posthaste.note_subscription_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO posthaste.subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at, tenant,
            event_types, filter)
        VALUES (NEW.id, NEW.event_type, NEW.callback_url, NEW.active, NEW.verified, NEW.max_retry_limit, NEW.deleted_at,
            NEW.updated_at, NEW.tenant, NEW.event_types, NEW.filter);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER subscription_change
    AFTER INSERT OR UPDATE OF event_type, event_types, filter, callback_url, active, verified, max_retry_limit,
        deleted_at, updated_at
    ON posthaste.subscriptions
    FOR EACH ROW EXECUTE FUNCTION posthaste.note_subscription_change();

-- ── keys ─────────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE posthaste.api_keys
    ADD COLUMN tenant text COLLATE "C" CONSTRAINT key_tenant_length CHECK (char_length(tenant) BETWEEN 1 AND 200);
CREATE TRIGGER key_tenant BEFORE UPDATE ON posthaste.api_keys
    FOR EACH ROW WHEN (OLD.tenant IS DISTINCT FROM NEW.tenant)
    EXECUTE FUNCTION posthaste.refuse('the tenant of a key never changes: create another key');

-- ── message ids ──────────────────────────────────────────────────────────────────────────────────

-- The key from which the ids of messages are derived. It never changes: a receiver recognizes a repeated message by its
-- id. Events up to plain_up_to keep the ids that they had before this migration. gen_random_uuid is the only strong
-- random source of the server without an extension; each value has 122 random bits.
CREATE TABLE posthaste.message_id_key (
    id          smallint PRIMARY KEY DEFAULT 1 CONSTRAINT message_id_key_single CHECK (id = 1),
    key         bytea NOT NULL CONSTRAINT message_id_key_length CHECK (octet_length(key) = 32),
    plain_up_to bigint NOT NULL
);
INSERT INTO posthaste.message_id_key (key, plain_up_to)
    SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
        coalesce((SELECT e.id FROM posthaste.events e ORDER BY e.id DESC LIMIT 1), 0);
CREATE TRIGGER message_id_key_stays BEFORE UPDATE OR DELETE ON posthaste.message_id_key
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('receivers recognize messages by ids made with this key');
CREATE TRIGGER message_id_key_truncate BEFORE TRUNCATE ON posthaste.message_id_key
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('receivers recognize messages by ids made with this key');
