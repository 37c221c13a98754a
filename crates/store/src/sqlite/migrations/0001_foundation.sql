-- The tables, keys and guards of both lanes: the twin of PostgreSQL's, column for column. Times are
-- whole microseconds since 1970 in UTC. Guards say RAISE(ABORT), which undoes the statement and leaves
-- the group's transaction open. Where PostgreSQL has a function of the owner, here is a view with an
-- INSTEAD OF trigger: the authorizer lets a role write the view, and only the trigger write the tables.
--
-- Three things that SQLite does and PostgreSQL does not: length() and GLOB stop at U+0000, so texts from
-- outside are searched for it; UPDATE OR REPLACE puts the default where a NULL may not stand, after the
-- guards have seen the NULL, so a guard lets pass what IS TRUE and nothing else; and rowid is one more
-- name of the id, which an UPDATE OF must list.

-- ── events ───────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE events (
    id                INTEGER PRIMARY KEY,
    external_event_id TEXT CONSTRAINT event_external_id_length CHECK (length(external_event_id) BETWEEN 1 AND 200 AND instr(external_event_id, char(0)) = 0),
    event_type        TEXT NOT NULL CONSTRAINT event_type_form CHECK (octet_length(event_type) <= 200
        AND event_type GLOB '[A-Za-z0-9]*' AND event_type NOT GLOB '*[^A-Za-z0-9_.:/-]*' AND instr(event_type, char(0)) = 0),
    payload           TEXT NOT NULL CONSTRAINT event_payload_size CHECK (octet_length(payload) <= 1048576)
        CONSTRAINT event_payload_json CHECK (json_valid(payload) AND instr(payload, char(0)) = 0),
    correlation_id    TEXT CONSTRAINT event_correlation_id_length CHECK (length(correlation_id) BETWEEN 1 AND 200 AND instr(correlation_id, char(0)) = 0),
    traceparent       TEXT CONSTRAINT event_traceparent_length CHECK (length(traceparent) = 55 AND octet_length(traceparent) = 55),
    created_at        INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX uniq_event_external_id ON events (external_event_id);
CREATE INDEX idx_event_created_at ON events (created_at);
CREATE INDEX idx_event_type ON events (event_type);

CREATE TABLE routing_queue (
    event_id INTEGER PRIMARY KEY
) STRICT;

CREATE TRIGGER event_queue AFTER INSERT ON events BEGIN
    INSERT INTO routing_queue (event_id) VALUES (NEW.id);
END;
CREATE TRIGGER event_immutable_update BEFORE UPDATE ON events BEGIN
    SELECT RAISE(ABORT, 'UPDATE of events refused: events are append only');
END;
CREATE TRIGGER event_immutable_delete BEFORE DELETE ON events BEGIN
    SELECT RAISE(ABORT, 'DELETE of events refused: events are append only');
END;

-- ── subscriptions ────────────────────────────────────────────────────────────────────────────────

CREATE TABLE subscriptions (
    id                         INTEGER PRIMARY KEY,
    event_type                 TEXT NOT NULL CONSTRAINT subscription_type_form CHECK (octet_length(event_type) <= 200
        AND event_type GLOB '[A-Za-z0-9]*' AND event_type NOT GLOB '*[^A-Za-z0-9_.:/-]*' AND instr(event_type, char(0)) = 0),
    callback_url               TEXT NOT NULL CONSTRAINT subscription_url_length CHECK (octet_length(callback_url) BETWEEN 1 AND 2000 AND instr(callback_url, char(0)) = 0),
    active                     INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    verified                   INTEGER NOT NULL DEFAULT 0 CHECK (verified IN (0, 1)),
    max_retry_limit            INTEGER CONSTRAINT subscription_limit_range CHECK (max_retry_limit BETWEEN 1 AND 100),
    secret                     TEXT NOT NULL CONSTRAINT subscription_secret_text CHECK (instr(secret, char(0)) = 0),
    previous_secret            TEXT,
    previous_secret_expires_at INTEGER,
    description                TEXT CONSTRAINT subscription_description_length CHECK (length(description) <= 1000 AND instr(description, char(0)) = 0),
    created_at                 INTEGER NOT NULL,
    updated_at                 INTEGER NOT NULL,
    deleted_at                 INTEGER,
    CONSTRAINT subscription_previous_secret_expires CHECK ((previous_secret IS NULL) = (previous_secret_expires_at IS NULL))
) STRICT;
CREATE INDEX idx_subscription_event_type ON subscriptions (event_type);

CREATE TABLE subscription_changes (
    id              INTEGER PRIMARY KEY,
    subscription_id INTEGER NOT NULL,
    event_type      TEXT NOT NULL,
    callback_url    TEXT NOT NULL,
    active          INTEGER NOT NULL,
    verified        INTEGER NOT NULL,
    max_retry_limit INTEGER,
    deleted_at      INTEGER,
    changed_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_subscription_change ON subscription_changes (subscription_id, id);

CREATE TRIGGER subscription_change_insert AFTER INSERT ON subscriptions BEGIN
    INSERT INTO subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at)
        VALUES (NEW.id, NEW.event_type, NEW.callback_url, NEW.active, NEW.verified, NEW.max_retry_limit, NEW.deleted_at, NEW.updated_at);
END;
CREATE TRIGGER subscription_change_update AFTER UPDATE ON subscriptions BEGIN
    INSERT INTO subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at)
        VALUES (NEW.id, NEW.event_type, NEW.callback_url, NEW.active, NEW.verified, NEW.max_retry_limit, NEW.deleted_at, NEW.updated_at);
END;
CREATE TRIGGER subscription_stays BEFORE DELETE ON subscriptions BEGIN
    SELECT RAISE(ABORT, 'DELETE of subscriptions refused: set deleted_at instead: history keeps its references');
END;
CREATE TRIGGER subscription_deleted BEFORE UPDATE ON subscriptions WHEN OLD.deleted_at IS NOT NULL BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscriptions refused: a deleted subscription never comes back');
END;
CREATE TRIGGER subscription_identity BEFORE UPDATE ON subscriptions WHEN OLD.id IS NOT NEW.id BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscriptions refused: history refers to a subscription by its id');
END;
CREATE TRIGGER subscription_change_immutable_update BEFORE UPDATE ON subscription_changes BEGIN
    SELECT RAISE(ABORT, 'UPDATE of subscription_changes refused: changes are append only');
END;
CREATE TRIGGER subscription_change_immutable_delete BEFORE DELETE ON subscription_changes BEGIN
    SELECT RAISE(ABORT, 'DELETE of subscription_changes refused: changes are append only');
END;

-- ── sagas ────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE webhook_delivery_sagas (
    id               INTEGER PRIMARY KEY,
    event_id         INTEGER NOT NULL,
    subscription_id  INTEGER NOT NULL,
    status           TEXT NOT NULL DEFAULT 'Pending' CONSTRAINT saga_status
        CHECK (status = 'Pending' OR status = 'InProgress' OR status = 'PendingRetry' OR status = 'Completed' OR status = 'DeadLettered'),
    attempt_count    INTEGER NOT NULL DEFAULT 0 CONSTRAINT saga_attempt_count CHECK (attempt_count >= 0),
    next_attempt_at  INTEGER NOT NULL,
    final_error_code TEXT CONSTRAINT saga_error_length CHECK (length(final_error_code) <= 100),
    current_job_id   INTEGER,
    requeued_from    INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_saga_event ON webhook_delivery_sagas (event_id, subscription_id);
CREATE INDEX idx_saga_status_retry ON webhook_delivery_sagas (status, next_attempt_at);
CREATE INDEX idx_saga_status ON webhook_delivery_sagas (status);
CREATE UNIQUE INDEX uniq_saga_event_subscription ON webhook_delivery_sagas (event_id, subscription_id)
    WHERE requeued_from IS NULL;
CREATE UNIQUE INDEX uniq_saga_requeued_from ON webhook_delivery_sagas (requeued_from)
    WHERE requeued_from IS NOT NULL;
CREATE INDEX idx_saga_subscription_due ON webhook_delivery_sagas (subscription_id, status, next_attempt_at)
    WHERE status = 'Pending' OR status = 'InProgress' OR status = 'PendingRetry';

CREATE TRIGGER saga_first_state BEFORE INSERT ON webhook_delivery_sagas
WHEN NEW.status <> 'Pending' OR NEW.attempt_count <> 0 OR NEW.current_job_id IS NOT NULL OR NEW.final_error_code IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'INSERT of webhook_delivery_sagas refused: a saga begins Pending with no attempt');
END;
CREATE TRIGGER saga_transition BEFORE UPDATE ON webhook_delivery_sagas
WHEN (
    (OLD.status = 'Pending' AND NEW.status IN ('Pending', 'InProgress'))
    OR (OLD.status = 'InProgress' AND NEW.status <> 'Pending')
    OR (OLD.status = 'PendingRetry' AND NEW.status <> 'Pending' AND NEW.status <> 'Completed')) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of webhook_delivery_sagas refused: this is no transition of a saga, or it has ended');
END;
CREATE TRIGGER saga_identity BEFORE UPDATE OF id, rowid, oid, _rowid_, event_id, subscription_id, requeued_from ON webhook_delivery_sagas
WHEN OLD.id <> NEW.id OR OLD.event_id <> NEW.event_id OR OLD.subscription_id <> NEW.subscription_id
    OR OLD.requeued_from IS NOT NEW.requeued_from
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of webhook_delivery_sagas refused: what a saga delivers to whom never changes');
END;
CREATE TRIGGER saga_stays BEFORE DELETE ON webhook_delivery_sagas BEGIN
    SELECT RAISE(ABORT, 'DELETE of webhook_delivery_sagas refused: sagas are never deleted');
END;

-- ── jobs ─────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE webhook_delivery_jobs (
    id              INTEGER PRIMARY KEY,
    saga_id         INTEGER NOT NULL,
    status          TEXT NOT NULL DEFAULT 'Pending' CONSTRAINT job_status
        CHECK (status = 'Pending' OR status = 'Leased' OR status = 'Completed' OR status = 'Failed'),
    lease_until     INTEGER NOT NULL,
    attempt_at      INTEGER NOT NULL,
    response_status INTEGER,
    error_code      TEXT CONSTRAINT job_error_length CHECK (length(error_code) <= 100),
    lease_token     BLOB CONSTRAINT job_lease_token CHECK (octet_length(lease_token) = 16),
    lease_resets    INTEGER NOT NULL DEFAULT 0 CONSTRAINT job_lease_resets CHECK (lease_resets >= 0),
    worker_id       TEXT CONSTRAINT job_worker_length CHECK (length(worker_id) <= 100),
    duration_ms     INTEGER CONSTRAINT job_duration CHECK (duration_ms >= 0),
    retry_after_s   INTEGER CONSTRAINT job_retry_after CHECK (retry_after_s >= 0),
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_job_saga ON webhook_delivery_jobs (saga_id);
CREATE INDEX idx_job_status_lease ON webhook_delivery_jobs (status, lease_until);
CREATE UNIQUE INDEX uniq_job_saga_attempt ON webhook_delivery_jobs (saga_id, attempt_at);
CREATE UNIQUE INDEX uniq_job_active ON webhook_delivery_jobs (saga_id) WHERE status = 'Pending' OR status = 'Leased';

CREATE TRIGGER job_first_state BEFORE INSERT ON webhook_delivery_jobs
WHEN NEW.status <> 'Pending' OR NEW.lease_token IS NOT NULL OR NEW.lease_resets <> 0
BEGIN
    SELECT RAISE(ABORT, 'INSERT of webhook_delivery_jobs refused: a job begins Pending');
END;
CREATE TRIGGER job_transition BEFORE UPDATE ON webhook_delivery_jobs
WHEN ((OLD.status = 'Pending' AND NEW.status IN ('Pending', 'Leased')) OR OLD.status = 'Leased') IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of webhook_delivery_jobs refused: this is no transition of a job, or it has ended');
END;
CREATE TRIGGER job_identity BEFORE UPDATE OF id, rowid, oid, _rowid_, saga_id, attempt_at ON webhook_delivery_jobs
WHEN OLD.id <> NEW.id OR OLD.saga_id <> NEW.saga_id OR OLD.attempt_at <> NEW.attempt_at
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of webhook_delivery_jobs refused: which attempt a job is never changes');
END;
CREATE TRIGGER job_stays BEFORE DELETE ON webhook_delivery_jobs BEGIN
    SELECT RAISE(ABORT, 'DELETE of webhook_delivery_jobs refused: jobs are never deleted');
END;

-- Finished jobs that the orchestrator has not applied yet: the transaction that ends a job puts it
-- here, the one that moves the saga takes it away.
CREATE TABLE finished_jobs (
    job_id INTEGER PRIMARY KEY
) STRICT;

-- ── dead letters ─────────────────────────────────────────────────────────────────────────────────

CREATE TABLE dead_letters (
    id               INTEGER PRIMARY KEY,
    saga_id          INTEGER NOT NULL,
    event_id         INTEGER NOT NULL,
    subscription_id  INTEGER NOT NULL,
    final_error_code TEXT CONSTRAINT dead_letter_error_length CHECK (length(final_error_code) <= 100),
    failed_at        INTEGER NOT NULL,
    payload_snapshot TEXT NOT NULL
) STRICT;
CREATE INDEX idx_dead_saga ON dead_letters (saga_id);
CREATE INDEX idx_dead_event ON dead_letters (event_id);
CREATE INDEX idx_dead_subscription ON dead_letters (subscription_id, id);
CREATE INDEX idx_dead_failed_at ON dead_letters (failed_at);

CREATE TRIGGER dead_letter_immutable_update BEFORE UPDATE ON dead_letters BEGIN
    SELECT RAISE(ABORT, 'UPDATE of dead_letters refused: dead letters never change');
END;
CREATE TRIGGER dead_letter_immutable_delete BEFORE DELETE ON dead_letters BEGIN
    SELECT RAISE(ABORT, 'DELETE of dead_letters refused: dead letters never change');
END;
CREATE TRIGGER saga_dead_letter AFTER UPDATE OF status ON webhook_delivery_sagas
WHEN NEW.status = 'DeadLettered' AND OLD.status <> 'DeadLettered'
BEGIN
    INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
        VALUES (NEW.id, NEW.event_id, NEW.subscription_id, NEW.final_error_code, NEW.updated_at,
            coalesce((SELECT e.payload FROM events e WHERE e.id = NEW.event_id), 'null'));
END;

-- The one way to a second saga of the same event and subscription: insert (dead_letter_id, requeued_at)
-- here, then read what came of it.
CREATE VIEW requeue AS
    SELECT d.id AS dead_letter_id, NULL AS requeued_at, g.id AS saga_id, s.id IS NULL AS undeliverable
        FROM dead_letters d
        LEFT JOIN webhook_delivery_sagas g ON g.requeued_from = d.id
        LEFT JOIN subscriptions s ON s.id = d.subscription_id AND s.deleted_at IS NULL;
CREATE TRIGGER requeue_insert INSTEAD OF INSERT ON requeue BEGIN
    INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, requeued_from, created_at, updated_at)
        SELECT d.event_id, d.subscription_id, NEW.requeued_at, d.id, NEW.requeued_at, NEW.requeued_at
            FROM dead_letters d
            JOIN subscriptions s ON s.id = d.subscription_id AND s.deleted_at IS NULL
            WHERE d.id = NEW.dead_letter_id
        ON CONFLICT (requeued_from) WHERE requeued_from IS NOT NULL DO NOTHING;
END;

-- ── orders ───────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE outbox_orders (
    id              INTEGER PRIMARY KEY,
    idempotency_key TEXT NOT NULL CONSTRAINT order_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 200 AND instr(idempotency_key, char(0)) = 0),
    request_json    TEXT NOT NULL CONSTRAINT order_json CHECK (json_valid(request_json) AND instr(request_json, char(0)) = 0),
    request_digest  TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'queued' CONSTRAINT order_status
        CHECK (status IN ('queued', 'sending', 'sent', 'failed', 'dead')),
    retry_count     INTEGER NOT NULL DEFAULT 0 CONSTRAINT order_retry_count CHECK (retry_count >= 0),
    next_attempt_at INTEGER NOT NULL,
    last_error      TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    lease_token     BLOB CONSTRAINT order_lease_token CHECK (octet_length(lease_token) = 16),
    worker_id       TEXT CONSTRAINT order_worker_length CHECK (length(worker_id) <= 100),
    trace_id        TEXT CONSTRAINT order_trace_text CHECK (instr(trace_id, char(0)) = 0),
    broker_order_id TEXT CONSTRAINT order_broker_text CHECK (instr(broker_order_id, char(0)) = 0),
    result_json     TEXT CONSTRAINT order_result_json CHECK (json_valid(result_json) AND instr(result_json, char(0)) = 0),
    result_digest   TEXT,
    maybe_executed  INTEGER NOT NULL DEFAULT 0 CHECK (maybe_executed IN (0, 1)),
    note            TEXT
) STRICT;
CREATE UNIQUE INDEX uniq_order_idempotency_key ON outbox_orders (idempotency_key);
CREATE INDEX idx_order_status_next ON outbox_orders (status, next_attempt_at);
CREATE INDEX idx_order_created_at ON outbox_orders (created_at);

CREATE TABLE idempo_ledger (
    idempotency_key TEXT PRIMARY KEY NOT NULL,
    request_digest  TEXT NOT NULL,
    result_digest   TEXT,
    broker_order_id TEXT,
    expires_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_ledger_expires_at ON idempo_ledger (expires_at);
CREATE TRIGGER ledger_identity BEFORE UPDATE ON idempo_ledger
WHEN OLD.idempotency_key IS NOT NEW.idempotency_key OR OLD.request_digest IS NOT NEW.request_digest
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of idempo_ledger refused: which order a ledger row stands for never changes');
END;
CREATE TRIGGER ledger_outlives_order BEFORE DELETE ON idempo_ledger
WHEN EXISTS (SELECT 1 FROM outbox_orders o WHERE o.idempotency_key = OLD.idempotency_key AND o.status NOT IN ('sent', 'dead'))
BEGIN
    SELECT RAISE(ABORT, 'DELETE of idempo_ledger refused: the order has not ended');
END;

CREATE TABLE outbox_audit (
    id              INTEGER PRIMARY KEY,
    outbox_id       INTEGER NOT NULL,
    status_from     TEXT,
    status_to       TEXT NOT NULL,
    retry_count     INTEGER NOT NULL,
    last_error      TEXT,
    idempotency_key TEXT NOT NULL,
    trace_id        TEXT,
    broker_order_id TEXT,
    worker_id       TEXT,
    note            TEXT,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_audit_order ON outbox_audit (outbox_id, id);

CREATE TABLE outbox_lane (
    id                  INTEGER PRIMARY KEY DEFAULT 1 CONSTRAINT lane_single CHECK (id = 1),
    paused_at           INTEGER,
    reason              TEXT,
    rate                REAL NOT NULL,
    unauthorized_in_row INTEGER NOT NULL DEFAULT 0,
    faults_in_row       INTEGER NOT NULL DEFAULT 0,
    probe_until         INTEGER,
    next_send_at        INTEGER,
    slowed_at           INTEGER,
    updated_at          INTEGER NOT NULL
) STRICT;
-- The rate is the one that stands for no throttle.
INSERT INTO outbox_lane (id, rate, updated_at) VALUES (1, 1000.0, 0);

CREATE TRIGGER order_audit_insert AFTER INSERT ON outbox_orders BEGIN
    INSERT INTO outbox_audit (outbox_id, status_from, status_to, retry_count, last_error, idempotency_key,
            trace_id, broker_order_id, worker_id, note, created_at)
        VALUES (NEW.id, NULL, NEW.status, NEW.retry_count, NEW.last_error, NEW.idempotency_key,
            NEW.trace_id, NEW.broker_order_id, NEW.worker_id, NEW.note, NEW.updated_at);
END;
CREATE TRIGGER order_audit_update AFTER UPDATE OF status ON outbox_orders WHEN OLD.status <> NEW.status BEGIN
    INSERT INTO outbox_audit (outbox_id, status_from, status_to, retry_count, last_error, idempotency_key,
            trace_id, broker_order_id, worker_id, note, created_at)
        VALUES (NEW.id, OLD.status, NEW.status, NEW.retry_count, NEW.last_error, NEW.idempotency_key,
            NEW.trace_id, NEW.broker_order_id, NEW.worker_id, NEW.note, NEW.updated_at);
END;
CREATE TRIGGER order_first_state BEFORE INSERT ON outbox_orders WHEN NEW.status <> 'queued' OR NEW.retry_count <> 0 BEGIN
    SELECT RAISE(ABORT, 'INSERT of outbox_orders refused: an order begins queued');
END;
CREATE TRIGGER order_transition BEFORE UPDATE ON outbox_orders
WHEN (
    (OLD.status = 'queued' AND NEW.status IN ('queued', 'sending'))
    OR OLD.status = 'sending'
    OR (OLD.status = 'failed' AND NEW.status IN ('failed', 'queued', 'dead'))) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of outbox_orders refused: this is no transition of an order, or it has ended');
END;
CREATE TRIGGER order_counts_with_transition BEFORE UPDATE ON outbox_orders
WHEN OLD.status = NEW.status AND (OLD.retry_count IS NOT NEW.retry_count OR OLD.last_error IS NOT NEW.last_error)
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of outbox_orders refused: retry_count and last_error change with the status only');
END;
CREATE TRIGGER order_identity BEFORE UPDATE OF id, rowid, oid, _rowid_, idempotency_key, request_digest, request_json ON outbox_orders
WHEN OLD.id <> NEW.id OR OLD.idempotency_key <> NEW.idempotency_key OR OLD.request_digest <> NEW.request_digest
    OR OLD.request_json <> NEW.request_json
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of outbox_orders refused: what an order asks for never changes');
END;
CREATE TRIGGER order_stays BEFORE DELETE ON outbox_orders BEGIN
    SELECT RAISE(ABORT, 'DELETE of outbox_orders refused: orders are never deleted');
END;
CREATE TRIGGER audit_immutable_update BEFORE UPDATE ON outbox_audit BEGIN
    SELECT RAISE(ABORT, 'UPDATE of outbox_audit refused: the audit is append only');
END;
CREATE TRIGGER audit_immutable_delete BEFORE DELETE ON outbox_audit BEGIN
    SELECT RAISE(ABORT, 'DELETE of outbox_audit refused: the audit is append only');
END;

-- ── keys, processes, charts ──────────────────────────────────────────────────────────────────────

CREATE TABLE api_keys (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL CONSTRAINT key_name_length CHECK (length(name) BETWEEN 1 AND 200 AND instr(name, char(0)) = 0),
    role         TEXT NOT NULL CONSTRAINT key_role CHECK (role IN ('root', 'admin', 'operator', 'viewer', 'ingest', 'orders')),
    key_hash     BLOB NOT NULL CONSTRAINT key_hash_length CHECK (octet_length(key_hash) = 32),
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX uniq_key_hash ON api_keys (key_hash);

CREATE TABLE processes (
    process_id TEXT NOT NULL CONSTRAINT process_id_length CHECK (length(process_id) <= 100),
    role       TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    PRIMARY KEY (process_id, role)
) STRICT;

CREATE TABLE rollups (
    interval_start INTEGER NOT NULL,
    counter        TEXT NOT NULL,
    amount         INTEGER NOT NULL,
    PRIMARY KEY (interval_start, counter)
) STRICT;

CREATE VIEW presence_reports AS
    SELECT NULL AS process_id, NULL AS role, NULL AS version, NULL AS started_at, NULL AS seen_at WHERE 0;
CREATE TRIGGER presence_report_insert INSTEAD OF INSERT ON presence_reports BEGIN
    INSERT INTO processes (process_id, role, version, started_at, seen_at)
        VALUES (NEW.process_id, NEW.role, NEW.version, NEW.started_at, NEW.seen_at)
        ON CONFLICT (process_id, role) DO UPDATE SET version = excluded.version,
            started_at = excluded.started_at, seen_at = max(seen_at, excluded.seen_at);
END;
CREATE VIEW rollup_reports AS
    SELECT NULL AS interval_start, NULL AS counter, NULL AS amount WHERE 0;
CREATE TRIGGER rollup_report_insert INSTEAD OF INSERT ON rollup_reports BEGIN
    INSERT INTO rollups (interval_start, counter, amount) VALUES (NEW.interval_start, NEW.counter, NEW.amount)
        ON CONFLICT (interval_start, counter) DO UPDATE SET amount = amount + excluded.amount;
END;
