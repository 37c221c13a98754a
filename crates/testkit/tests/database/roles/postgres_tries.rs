//! Statements that no role may execute on PostgreSQL, in addition to the matrix of table rights.

/// Statements that must fail because of a missing right. Each one runs in its own transaction, which is rolled back.
pub(crate) const BEYOND: &[&str] = &[
    "CREATE TABLE posthaste.mine (a int)",
    "CREATE VIEW posthaste.mine AS SELECT 1",
    "CREATE FUNCTION posthaste.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TYPE posthaste.mine AS ENUM ('a')",
    "CREATE SEQUENCE posthaste.mine",
    "CREATE SCHEMA mine",
    "CREATE TABLE public.mine (a int)",
    "CREATE ROLE mine",
    "CREATE INDEX mine ON posthaste.events (payload)",
    "CREATE TRIGGER mine BEFORE INSERT ON posthaste.events FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('x')",
    "CREATE RULE mine AS ON INSERT TO posthaste.events DO INSTEAD NOTHING",
    "CREATE POLICY mine ON posthaste.events USING (true)",
    "ALTER SCHEMA posthaste RENAME TO mine",
    "ALTER TABLE posthaste.events ADD COLUMN mine int",
    "ALTER TABLE posthaste.events DISABLE TRIGGER ALL",
    "ALTER TABLE posthaste.webhook_delivery_sagas DISABLE TRIGGER saga_transition",
    "ALTER TABLE posthaste.subscriptions ALTER COLUMN secret DROP NOT NULL",
    "ALTER TABLE posthaste.outbox_orders DROP CONSTRAINT order_status",
    "ALTER TABLE posthaste.events OWNER TO CURRENT_USER",
    "ALTER FUNCTION posthaste.requeue(bigint, timestamptz) OWNER TO CURRENT_USER",
    "ALTER FUNCTION posthaste.requeue(bigint, timestamptz) RESET ALL",
    "ALTER TYPE posthaste.saga_status ADD VALUE 'Mine'",
    "ALTER ROLE viewer SUPERUSER",
    "CREATE OR REPLACE FUNCTION posthaste.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "DROP TABLE posthaste.events CASCADE",
    "DROP INDEX posthaste.uniq_saga_event_subscription",
    "DROP FUNCTION posthaste.publish(text, json, text, json, text)",
    "DROP TRIGGER event_immutable ON posthaste.events",
    "DROP SCHEMA posthaste CASCADE",
    "COMMENT ON TABLE posthaste.events IS 'mine'",
    "COMMENT ON SCHEMA posthaste IS 'mine'",
    "COMMENT ON ROLE viewer IS 'mine'",
    "ALTER ROLE viewer RENAME TO mine",
    "GRANT viewer TO CURRENT_USER",
    "GRANT subscription_admin TO job_worker",
    "COPY posthaste.events TO '/tmp/mine'",
    "COPY posthaste.events FROM '/etc/passwd'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "INSERT INTO posthaste.events (id, event_type, payload) OVERRIDING SYSTEM VALUE VALUES (9000000, 'a', '1')",
    "INSERT INTO posthaste.subscriptions (id, event_type, callback_url, secret) OVERRIDING SYSTEM VALUE
        VALUES (9000000, 'a', 'https://r.example', 's')",
    "INSERT INTO posthaste.webhook_delivery_sagas (id, event_id, subscription_id) OVERRIDING SYSTEM VALUE
        VALUES (9000000, 1, 1)",
    "INSERT INTO posthaste.webhook_delivery_jobs (id, saga_id, attempt_at) OVERRIDING SYSTEM VALUE
        VALUES (9000000, 1, now())",
    "INSERT INTO posthaste.outbox_orders (id, idempotency_key, request_json, request_digest) OVERRIDING SYSTEM VALUE
        VALUES (9000000, 'k', '{}', 'd')",
    "INSERT INTO posthaste.api_keys (id, name, role, key_hash) OVERRIDING SYSTEM VALUE
        VALUES (9000000, 'n', 'root', decode(repeat('00', 32), 'hex'))",
    "UPDATE posthaste.api_keys SET role = 'root'",
    "UPDATE posthaste.api_keys SET key_hash = decode(repeat('00', 32), 'hex')",
    "UPDATE posthaste.clock_guard SET enforced = false",
    "SELECT enforced FROM posthaste.clock_guard",
    "SET session_replication_role = replica",
    "SELECT nextval('posthaste.events_id_seq')",
    "SELECT setval('posthaste.webhook_delivery_sagas_id_seq', 1)",
    "SELECT last_value FROM posthaste.webhook_delivery_jobs_id_seq",
    "SELECT rolpassword FROM pg_authid",
    "SELECT passwd FROM pg_shadow",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
];

/// Statements that must fail because of a missing right, and that PostgreSQL does not allow in a transaction.
pub(crate) const BEYOND_ALONE: &[&str] = &[
    "CREATE DATABASE mine",
    "CREATE TABLESPACE mine LOCATION '/tmp'",
    "ALTER SYSTEM SET port = 1",
    "CREATE INDEX CONCURRENTLY mine ON posthaste.events (payload)",
    "DROP INDEX CONCURRENTLY posthaste.idx_saga_event",
];

/// Statements that try to grant or revoke rights.
pub(crate) const HAND_OUT: &[&str] = &[
    "GRANT ALL ON SCHEMA posthaste TO PUBLIC",
    "GRANT ALL ON ALL TABLES IN SCHEMA posthaste TO PUBLIC",
    "GRANT SELECT ON posthaste.events TO PUBLIC",
    "GRANT UPDATE ON posthaste.subscriptions TO PUBLIC",
    "GRANT SELECT (id) ON posthaste.events TO PUBLIC",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA posthaste TO PUBLIC",
    "GRANT EXECUTE ON FUNCTION posthaste.requeue TO PUBLIC",
    "REVOKE ALL ON ALL TABLES IN SCHEMA posthaste FROM viewer",
];

/// A query that returns all rights on all objects of the schema.
pub(crate) const RIGHTS: &str = "
    SELECT 'schema', nspname, nspacl::text FROM pg_namespace WHERE nspname = 'posthaste'
    UNION ALL SELECT 'relation', relname, relacl::text FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace
    UNION ALL SELECT 'column', attrelid::regclass || '.' || attname, attacl::text FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'posthaste'::regnamespace AND attnum > 0
    UNION ALL SELECT 'function', oid::regprocedure::text, proacl::text FROM pg_proc
        WHERE pronamespace = 'posthaste'::regnamespace
    UNION ALL SELECT 'type', typname, typacl::text FROM pg_type WHERE typnamespace = 'posthaste'::regnamespace
    ORDER BY 1, 2";
