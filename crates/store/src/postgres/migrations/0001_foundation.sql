-- The tables, keys and guards of both lanes. Rights are not here: they are made from the one table in
-- grants.rs at the end of every migrate. No foreign keys: events and finished rows can never be
-- deleted (guards below), subscriptions are only marked deleted, and a key check on every insert
-- would write a lock into the parent row of every delivery.

CREATE TYPE posthaste.saga_status AS ENUM ('Pending', 'InProgress', 'PendingRetry', 'Completed', 'DeadLettered');
CREATE TYPE posthaste.job_status AS ENUM ('Pending', 'Leased', 'Completed', 'Failed');

-- Every guard ends here. Posthaste is written so that it never does.
CREATE FUNCTION posthaste.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% of %.% refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
        USING ERRCODE = 'PH001';
END $$;

-- ── events ───────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE posthaste.events (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    external_event_id text COLLATE "C",
    event_type        text COLLATE "C" NOT NULL,
    payload           json NOT NULL,
    correlation_id    text COLLATE "C",
    traceparent       text COLLATE "C",
    created_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT event_external_id_length CHECK (char_length(external_event_id) BETWEEN 1 AND 200),
    CONSTRAINT event_type_form CHECK (char_length(event_type) <= 200 AND event_type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$'),
    CONSTRAINT event_payload_size CHECK (octet_length(payload::text) <= 1048576),
    CONSTRAINT event_correlation_id_length CHECK (char_length(correlation_id) BETWEEN 1 AND 200),
    CONSTRAINT event_traceparent_length CHECK (char_length(traceparent) = 55)
);
CREATE UNIQUE INDEX uniq_event_external_id ON posthaste.events (external_event_id);
CREATE INDEX idx_event_created_at ON posthaste.events (created_at);
CREATE INDEX idx_event_type ON posthaste.events (event_type);

CREATE TABLE posthaste.routing_queue (
    event_id bigint PRIMARY KEY
);

-- Runs as the owner: whoever may insert an event may not touch the queue by hand. By statement, so a
-- batch costs one call.
CREATE FUNCTION posthaste.queue_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO posthaste.routing_queue (event_id) SELECT id FROM new_events;
    RETURN NULL;
END $$;
CREATE TRIGGER event_queue AFTER INSERT ON posthaste.events
    REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION posthaste.queue_events();
CREATE TRIGGER event_immutable BEFORE UPDATE OR DELETE ON posthaste.events
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('events are append only');
CREATE TRIGGER event_truncate BEFORE TRUNCATE ON posthaste.events
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('events are append only');

-- For callers inside their own transaction: rolled back means never sent. Runs with the caller's rights.
CREATE FUNCTION posthaste.publish(event_type text, payload json, external_event_id text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    event_id bigint;
BEGIN
    INSERT INTO posthaste.events (event_type, payload, external_event_id)
        VALUES (publish.event_type, publish.payload, publish.external_event_id)
        ON CONFLICT (external_event_id) DO NOTHING
        RETURNING id INTO event_id;
    IF event_id IS NULL THEN
        SELECT e.id INTO event_id FROM posthaste.events e
            WHERE e.external_event_id = publish.external_event_id;
    END IF;
    RETURN event_id;
END $$;

-- ── subscriptions ────────────────────────────────────────────────────────────────────────────────

CREATE TABLE posthaste.subscriptions (
    id                         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type                 text COLLATE "C" NOT NULL,
    callback_url               text NOT NULL,
    active                     boolean NOT NULL DEFAULT true,
    verified                   boolean NOT NULL DEFAULT false,
    max_retry_limit            integer,
    secret                     text NOT NULL,
    previous_secret            text,
    previous_secret_expires_at timestamptz,
    description                text,
    created_at                 timestamptz NOT NULL DEFAULT now(),
    updated_at                 timestamptz NOT NULL DEFAULT now(),
    deleted_at                 timestamptz,
    CONSTRAINT subscription_type_form CHECK (char_length(event_type) <= 200 AND event_type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$'),
    CONSTRAINT subscription_url_length CHECK (octet_length(callback_url) BETWEEN 1 AND 2000),
    CONSTRAINT subscription_limit_range CHECK (max_retry_limit BETWEEN 1 AND 100),
    CONSTRAINT subscription_description_length CHECK (char_length(description) <= 1000),
    CONSTRAINT subscription_previous_secret_expires CHECK ((previous_secret IS NULL) = (previous_secret_expires_at IS NULL))
);
CREATE INDEX idx_subscription_event_type ON posthaste.subscriptions (event_type);

CREATE TABLE posthaste.subscription_changes (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription_id bigint NOT NULL,
    event_type      text COLLATE "C" NOT NULL,
    callback_url    text NOT NULL,
    active          boolean NOT NULL,
    verified        boolean NOT NULL,
    max_retry_limit integer,
    deleted_at      timestamptz,
    changed_at      timestamptz NOT NULL
);
CREATE INDEX idx_subscription_change ON posthaste.subscription_changes (subscription_id, id);

CREATE FUNCTION posthaste.note_subscription_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO posthaste.subscription_changes
        (subscription_id, event_type, callback_url, active, verified, max_retry_limit, deleted_at, changed_at)
        VALUES (NEW.id, NEW.event_type, NEW.callback_url, NEW.active, NEW.verified, NEW.max_retry_limit, NEW.deleted_at, NEW.updated_at);
    RETURN NULL;
END $$;
CREATE TRIGGER subscription_change AFTER INSERT OR UPDATE ON posthaste.subscriptions
    FOR EACH ROW EXECUTE FUNCTION posthaste.note_subscription_change();
CREATE TRIGGER subscription_stays BEFORE DELETE ON posthaste.subscriptions
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('set deleted_at instead: history keeps its references');
CREATE TRIGGER subscription_truncate BEFORE TRUNCATE ON posthaste.subscriptions
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('set deleted_at instead: history keeps its references');
CREATE TRIGGER subscription_deleted BEFORE UPDATE ON posthaste.subscriptions
    FOR EACH ROW WHEN (OLD.deleted_at IS NOT NULL)
    EXECUTE FUNCTION posthaste.refuse('a deleted subscription never comes back');
CREATE TRIGGER subscription_identity BEFORE UPDATE ON posthaste.subscriptions
    FOR EACH ROW WHEN (OLD.id <> NEW.id)
    EXECUTE FUNCTION posthaste.refuse('history refers to a subscription by its id');
CREATE TRIGGER subscription_change_immutable BEFORE UPDATE OR DELETE ON posthaste.subscription_changes
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('changes are append only');
CREATE TRIGGER subscription_change_truncate BEFORE TRUNCATE ON posthaste.subscription_changes
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('changes are append only');

-- ── sagas ────────────────────────────────────────────────────────────────────────────────────────

-- Sagas and jobs are updated a few times each and then never again, and every update writes every index anew. Where keys
-- are unique but for those versions, merging equal ones costs more than it saves (a tenth of a whole delivery, against
-- indexes larger by a third), so it is off there.

CREATE TABLE posthaste.webhook_delivery_sagas (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY WITH (deduplicate_items = off),
    event_id         bigint NOT NULL,
    subscription_id  bigint NOT NULL,
    status           posthaste.saga_status NOT NULL DEFAULT 'Pending',
    attempt_count    integer NOT NULL DEFAULT 0 CONSTRAINT saga_attempt_count CHECK (attempt_count >= 0),
    next_attempt_at  timestamptz NOT NULL DEFAULT now(),
    final_error_code varchar(100),
    current_job_id   bigint,
    requeued_from    bigint,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX idx_saga_event ON posthaste.webhook_delivery_sagas (event_id, subscription_id) WITH (deduplicate_items = off);
CREATE INDEX idx_saga_status_retry ON posthaste.webhook_delivery_sagas (status, next_attempt_at);
CREATE INDEX idx_saga_status ON posthaste.webhook_delivery_sagas (status);
CREATE UNIQUE INDEX uniq_saga_event_subscription ON posthaste.webhook_delivery_sagas (event_id, subscription_id)
    WITH (deduplicate_items = off) WHERE requeued_from IS NULL;
CREATE UNIQUE INDEX uniq_saga_requeued_from ON posthaste.webhook_delivery_sagas (requeued_from)
    WHERE requeued_from IS NOT NULL;
-- The unfinished. Written with <>, which no index over the status serves: a statement that repeats it says that it
-- means this index, and gives the planner no way into the others.
CREATE INDEX idx_saga_subscription_due ON posthaste.webhook_delivery_sagas (subscription_id, status, next_attempt_at)
    WHERE status <> 'Completed' AND status <> 'DeadLettered';

-- The condition stands in WHEN, where it costs no function call unless it is broken. Updates are looked at AFTER, which
-- undoes them just the same: a BEFORE trigger would lock every row once more, and write that to the log.
CREATE TRIGGER saga_first_state BEFORE INSERT ON posthaste.webhook_delivery_sagas
    FOR EACH ROW WHEN (NEW.status <> 'Pending' OR NEW.attempt_count <> 0 OR NEW.current_job_id IS NOT NULL
        OR NEW.final_error_code IS NOT NULL)
    EXECUTE FUNCTION posthaste.refuse('a saga begins Pending with no attempt');
CREATE TRIGGER saga_transition AFTER UPDATE ON posthaste.webhook_delivery_sagas
    FOR EACH ROW WHEN (NOT (
        (OLD.status = 'Pending' AND NEW.status IN ('Pending', 'InProgress'))
        OR (OLD.status = 'InProgress' AND NEW.status <> 'Pending')
        OR (OLD.status = 'PendingRetry' AND NEW.status IN ('PendingRetry', 'InProgress', 'DeadLettered'))))
    EXECUTE FUNCTION posthaste.refuse('this is no transition of a saga, or it has ended');
CREATE TRIGGER saga_identity AFTER UPDATE ON posthaste.webhook_delivery_sagas
    FOR EACH ROW WHEN (OLD.id <> NEW.id OR OLD.event_id <> NEW.event_id OR OLD.subscription_id <> NEW.subscription_id
        OR OLD.requeued_from IS DISTINCT FROM NEW.requeued_from)
    EXECUTE FUNCTION posthaste.refuse('what a saga delivers to whom never changes');
CREATE TRIGGER saga_stays BEFORE DELETE ON posthaste.webhook_delivery_sagas
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('sagas are never deleted');
CREATE TRIGGER saga_truncate BEFORE TRUNCATE ON posthaste.webhook_delivery_sagas
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('sagas are never deleted');

-- ── jobs ─────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE posthaste.webhook_delivery_jobs (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY WITH (deduplicate_items = off),
    saga_id         bigint NOT NULL,
    status          posthaste.job_status NOT NULL DEFAULT 'Pending',
    lease_until     timestamptz NOT NULL DEFAULT now(),
    attempt_at      timestamptz NOT NULL,
    response_status integer,
    error_code      varchar(100),
    lease_token     uuid,
    lease_resets    integer NOT NULL DEFAULT 0 CONSTRAINT job_lease_resets CHECK (lease_resets >= 0),
    worker_id       varchar(100),
    duration_ms     integer CONSTRAINT job_duration CHECK (duration_ms >= 0),
    retry_after_s   integer CONSTRAINT job_retry_after CHECK (retry_after_s >= 0),
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX idx_job_saga ON posthaste.webhook_delivery_jobs (saga_id) WITH (deduplicate_items = off);
CREATE INDEX idx_job_status_lease ON posthaste.webhook_delivery_jobs (status, lease_until);
CREATE UNIQUE INDEX uniq_job_saga_attempt ON posthaste.webhook_delivery_jobs (saga_id, attempt_at)
    WITH (deduplicate_items = off);
CREATE UNIQUE INDEX uniq_job_active ON posthaste.webhook_delivery_jobs (saga_id) WHERE status IN ('Pending', 'Leased');

CREATE TRIGGER job_first_state BEFORE INSERT ON posthaste.webhook_delivery_jobs
    FOR EACH ROW WHEN (NEW.status <> 'Pending' OR NEW.lease_token IS NOT NULL OR NEW.lease_resets <> 0)
    EXECUTE FUNCTION posthaste.refuse('a job begins Pending');
CREATE TRIGGER job_transition AFTER UPDATE ON posthaste.webhook_delivery_jobs
    FOR EACH ROW WHEN (NOT (
        (OLD.status = 'Pending' AND NEW.status IN ('Pending', 'Leased'))
        OR OLD.status = 'Leased'))
    EXECUTE FUNCTION posthaste.refuse('this is no transition of a job, or it has ended');
CREATE TRIGGER job_identity AFTER UPDATE ON posthaste.webhook_delivery_jobs
    FOR EACH ROW WHEN (OLD.id <> NEW.id OR OLD.saga_id <> NEW.saga_id OR OLD.attempt_at <> NEW.attempt_at)
    EXECUTE FUNCTION posthaste.refuse('which attempt a job is never changes');
CREATE TRIGGER job_stays BEFORE DELETE ON posthaste.webhook_delivery_jobs
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('jobs are never deleted');
CREATE TRIGGER job_truncate BEFORE TRUNCATE ON posthaste.webhook_delivery_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('jobs are never deleted');

-- Finished jobs that the orchestrator has not applied yet: the statement that ends a job puts it here,
-- the transaction that moves the saga takes it away. It is as long as what waits, whatever else hangs.
CREATE TABLE posthaste.finished_jobs (
    job_id bigint PRIMARY KEY
);

-- ── dead letters ─────────────────────────────────────────────────────────────────────────────────

CREATE TABLE posthaste.dead_letters (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    saga_id          bigint NOT NULL,
    event_id         bigint NOT NULL,
    subscription_id  bigint NOT NULL,
    final_error_code varchar(100),
    failed_at        timestamptz NOT NULL,
    payload_snapshot json NOT NULL
);
CREATE INDEX idx_dead_saga ON posthaste.dead_letters (saga_id);
CREATE INDEX idx_dead_event ON posthaste.dead_letters (event_id);
CREATE INDEX idx_dead_subscription ON posthaste.dead_letters (subscription_id, id);
CREATE INDEX idx_dead_failed_at ON posthaste.dead_letters (failed_at);

CREATE TRIGGER dead_letter_immutable BEFORE UPDATE OR DELETE ON posthaste.dead_letters
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('dead letters never change');
CREATE TRIGGER dead_letter_truncate BEFORE TRUNCATE ON posthaste.dead_letters
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('dead letters never change');

-- The letter commits with the transition, and the orchestrator needs no right to write one. An event
-- that is not there (somebody removed it by force) leaves a letter with a null payload.
CREATE FUNCTION posthaste.write_dead_letter() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO posthaste.dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot)
        VALUES (NEW.id, NEW.event_id, NEW.subscription_id, NEW.final_error_code, NEW.updated_at,
            coalesce((SELECT e.payload FROM posthaste.events e WHERE e.id = NEW.event_id), 'null'::json));
    RETURN NULL;
END $$;
CREATE TRIGGER saga_dead_letter AFTER UPDATE ON posthaste.webhook_delivery_sagas
    FOR EACH ROW WHEN (NEW.status = 'DeadLettered' AND OLD.status <> 'DeadLettered')
    EXECUTE FUNCTION posthaste.write_dead_letter();

-- The one way to a second saga of the same event and subscription. Runs as the owner, so the operator
-- can make nothing but this.
CREATE FUNCTION posthaste.requeue(dead_letter_id bigint, requeued_at timestamptz DEFAULT now())
RETURNS TABLE (outcome text, saga_id bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    letter posthaste.dead_letters;
    made bigint;
BEGIN
    SELECT * INTO letter FROM posthaste.dead_letters d WHERE d.id = requeue.dead_letter_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'not_found', NULL::bigint;
        RETURN;
    END IF;
    SELECT g.id INTO made FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = letter.id;
    IF FOUND THEN
        RETURN QUERY SELECT 'already_requeued', made;
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM posthaste.subscriptions s WHERE s.id = letter.subscription_id AND s.deleted_at IS NULL) THEN
        RETURN QUERY SELECT 'subscription_deleted', NULL::bigint;
        RETURN;
    END IF;
    INSERT INTO posthaste.webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, requeued_from, created_at, updated_at)
        VALUES (letter.event_id, letter.subscription_id, requeue.requeued_at, letter.id, requeue.requeued_at, requeue.requeued_at)
        ON CONFLICT (requeued_from) WHERE requeued_from IS NOT NULL DO NOTHING
        RETURNING id INTO made;
    IF made IS NOT NULL THEN
        RETURN QUERY SELECT 'created', made;
    ELSE
        RETURN QUERY SELECT 'already_requeued', g.id FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = letter.id;
    END IF;
END $$;

-- ── orders ───────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE posthaste.outbox_orders (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key text COLLATE "C" NOT NULL CONSTRAINT uniq_order_idempotency_key UNIQUE,
    request_json    jsonb NOT NULL,
    request_digest  text NOT NULL,
    status          text COLLATE "C" NOT NULL DEFAULT 'queued',
    retry_count     integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    lease_token     uuid,
    worker_id       varchar(100),
    trace_id        text,
    broker_order_id text,
    result_json     json,
    result_digest   text,
    maybe_executed  boolean NOT NULL DEFAULT false,
    note            text,
    CONSTRAINT order_key_length CHECK (char_length(idempotency_key) BETWEEN 1 AND 200),
    CONSTRAINT order_status CHECK (status IN ('queued', 'sending', 'sent', 'failed', 'dead')),
    CONSTRAINT order_retry_count CHECK (retry_count >= 0)
);
CREATE INDEX idx_order_status_next ON posthaste.outbox_orders (status, next_attempt_at);
CREATE INDEX idx_order_created_at ON posthaste.outbox_orders (created_at);

CREATE TABLE posthaste.idempo_ledger (
    idempotency_key text COLLATE "C" PRIMARY KEY,
    request_digest  text NOT NULL,
    result_digest   text,
    broker_order_id text,
    expires_at      timestamptz NOT NULL
);
CREATE INDEX idx_ledger_expires_at ON posthaste.idempo_ledger (expires_at);

CREATE FUNCTION posthaste.keep_ledger() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM posthaste.outbox_orders o
            WHERE o.idempotency_key = OLD.idempotency_key AND o.status NOT IN ('sent', 'dead')) THEN
        RAISE EXCEPTION 'DELETE of posthaste.idempo_ledger refused: the order % has not ended', OLD.idempotency_key
            USING ERRCODE = 'PH001';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER ledger_outlives_order BEFORE DELETE ON posthaste.idempo_ledger
    FOR EACH ROW EXECUTE FUNCTION posthaste.keep_ledger();
CREATE TRIGGER ledger_identity BEFORE UPDATE ON posthaste.idempo_ledger
    FOR EACH ROW WHEN (OLD.idempotency_key <> NEW.idempotency_key OR OLD.request_digest <> NEW.request_digest)
    EXECUTE FUNCTION posthaste.refuse('which order a ledger row stands for never changes');
CREATE TRIGGER ledger_truncate BEFORE TRUNCATE ON posthaste.idempo_ledger
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('the ledger outlives every unfinished order');

CREATE TABLE posthaste.outbox_audit (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    outbox_id       bigint NOT NULL,
    status_from     text,
    status_to       text NOT NULL,
    retry_count     integer NOT NULL,
    last_error      text,
    idempotency_key text COLLATE "C" NOT NULL,
    trace_id        text,
    broker_order_id text,
    worker_id       varchar(100),
    note            text,
    created_at      timestamptz NOT NULL
);
CREATE INDEX idx_audit_order ON posthaste.outbox_audit (outbox_id, id);

CREATE TABLE posthaste.outbox_lane (
    id                  smallint PRIMARY KEY DEFAULT 1 CONSTRAINT lane_single CHECK (id = 1),
    paused_at           timestamptz,
    reason              text,
    rate                double precision NOT NULL,
    unauthorized_in_row integer NOT NULL DEFAULT 0,
    faults_in_row       integer NOT NULL DEFAULT 0,
    probe_until         timestamptz,
    next_send_at        timestamptz,
    slowed_at           timestamptz,
    updated_at          timestamptz NOT NULL DEFAULT now()
);
-- The lane starts without a throttle: RATE_MAX of the core.
INSERT INTO posthaste.outbox_lane (rate) VALUES (1000);

CREATE FUNCTION posthaste.write_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO posthaste.outbox_audit
        (outbox_id, status_from, status_to, retry_count, last_error, idempotency_key, trace_id, broker_order_id, worker_id, note, created_at)
        VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status, NEW.retry_count, NEW.last_error,
            NEW.idempotency_key, NEW.trace_id, NEW.broker_order_id, NEW.worker_id, NEW.note, NEW.updated_at);
    RETURN NULL;
END $$;
CREATE TRIGGER order_audit_insert AFTER INSERT ON posthaste.outbox_orders
    FOR EACH ROW EXECUTE FUNCTION posthaste.write_audit();
CREATE TRIGGER order_audit_update AFTER UPDATE ON posthaste.outbox_orders
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION posthaste.write_audit();
CREATE TRIGGER order_first_state BEFORE INSERT ON posthaste.outbox_orders
    FOR EACH ROW WHEN (NEW.status <> 'queued' OR NEW.retry_count <> 0)
    EXECUTE FUNCTION posthaste.refuse('an order begins queued');
CREATE TRIGGER order_transition BEFORE UPDATE ON posthaste.outbox_orders
    FOR EACH ROW WHEN (NOT (
        (OLD.status = 'queued' AND NEW.status IN ('queued', 'sending'))
        OR OLD.status = 'sending'
        OR (OLD.status = 'failed' AND NEW.status IN ('failed', 'queued', 'dead'))))
    EXECUTE FUNCTION posthaste.refuse('this is no transition of an order, or it has ended');
-- A count or an error that changed without a transition would be missing in the audit.
CREATE TRIGGER order_counts_with_transition BEFORE UPDATE ON posthaste.outbox_orders
    FOR EACH ROW WHEN (OLD.status = NEW.status
        AND (OLD.retry_count <> NEW.retry_count OR OLD.last_error IS DISTINCT FROM NEW.last_error))
    EXECUTE FUNCTION posthaste.refuse('retry_count and last_error change with the status only');
CREATE TRIGGER order_identity BEFORE UPDATE ON posthaste.outbox_orders
    FOR EACH ROW WHEN (OLD.id <> NEW.id OR OLD.idempotency_key <> NEW.idempotency_key
        OR OLD.request_digest <> NEW.request_digest OR OLD.request_json <> NEW.request_json)
    EXECUTE FUNCTION posthaste.refuse('what an order asks for never changes');
CREATE TRIGGER order_stays BEFORE DELETE ON posthaste.outbox_orders
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('orders are never deleted');
CREATE TRIGGER order_truncate BEFORE TRUNCATE ON posthaste.outbox_orders
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('orders are never deleted');
CREATE TRIGGER audit_immutable BEFORE UPDATE OR DELETE ON posthaste.outbox_audit
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('the audit is append only');
CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON posthaste.outbox_audit
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('the audit is append only');

-- ── keys, processes, charts ──────────────────────────────────────────────────────────────────────

CREATE TABLE posthaste.api_keys (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL CONSTRAINT key_name_length CHECK (char_length(name) BETWEEN 1 AND 200),
    role         text NOT NULL CONSTRAINT key_role CHECK (role IN ('root', 'admin', 'operator', 'viewer', 'ingest', 'orders')),
    key_hash     bytea NOT NULL CONSTRAINT key_hash_length CHECK (octet_length(key_hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE UNIQUE INDEX uniq_key_hash ON posthaste.api_keys (key_hash);

CREATE TABLE posthaste.processes (
    process_id varchar(100) NOT NULL,
    role       text NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    PRIMARY KEY (process_id, role)
);

CREATE TABLE posthaste.rollups (
    interval_start timestamptz NOT NULL,
    counter        text NOT NULL,
    amount         bigint NOT NULL,
    PRIMARY KEY (interval_start, counter)
);

-- Every role may call this and no role may write the tables behind it. Counters are added in key
-- order, so that two processes never wait for each other in a circle.
CREATE FUNCTION posthaste.report_presence(process_id text, role text, version text, started_at timestamptz,
    seen_at timestamptz, interval_starts timestamptz[], counters text[], amounts bigint[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO posthaste.processes AS p (process_id, role, version, started_at, seen_at)
        VALUES (report_presence.process_id, report_presence.role, report_presence.version,
            report_presence.started_at, report_presence.seen_at)
        ON CONFLICT (process_id, role) DO UPDATE SET version = excluded.version,
            started_at = excluded.started_at, seen_at = greatest(p.seen_at, excluded.seen_at);
    INSERT INTO posthaste.rollups AS r (interval_start, counter, amount)
        SELECT u.interval_start, u.counter, sum(u.amount)
            FROM unnest(interval_starts, counters, amounts) AS u (interval_start, counter, amount)
            GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (interval_start, counter) DO UPDATE SET amount = r.amount + excluded.amount;
END $$;

-- ── upkeep ───────────────────────────────────────────────────────────────────────────────────────
-- The queues turn over completely every few seconds; the defaults, a share of the table, would let
-- their dead rows grow with history.

ALTER TABLE posthaste.routing_queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE posthaste.finished_jobs SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE posthaste.webhook_delivery_sagas SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE posthaste.webhook_delivery_jobs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
