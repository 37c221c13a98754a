-- Narrower rights for every login: what a role may do only in one particular way becomes a function of the owner.

-- ── caller-supplied times ────────────────────────────────────────────────────────────────────────

-- Functions that any login may call limit the caller's time to 5 s around the server's clock.
-- No role may read or write this row; only the owner switches the limit off, for tests that run on a clock of
-- their own.
CREATE TABLE posthaste.clock_guard (
    id       smallint PRIMARY KEY DEFAULT 1 CONSTRAINT clock_guard_single CHECK (id = 1),
    enforced boolean NOT NULL
);
INSERT INTO posthaste.clock_guard (enforced) VALUES (true);

-- Returns the given time, or the nearest time within 5 s of the server's clock. A missing row means enforced.
CREATE FUNCTION posthaste.limit_to_clock(given timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce((SELECT g.enforced FROM posthaste.clock_guard g WHERE g.id = 1), true) THEN
        RETURN least(greatest(given, clock_timestamp() - interval '5 seconds'), clock_timestamp() + interval '5 seconds');
    END IF;
    RETURN given;
END $$;

-- ── the lane ─────────────────────────────────────────────────────────────────────────────────────

-- An operator lets the lane continue: what Lane::resumed of the core does, and no other change of the row. The
-- rate is kept. Runs as the owner, so that the API needs no login that can change orders.
CREATE FUNCTION posthaste.resume_lane(resumed_at timestamptz DEFAULT now()) RETURNS posthaste.outbox_lane
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lane posthaste.outbox_lane;
BEGIN
    UPDATE posthaste.outbox_lane l
        SET paused_at = NULL, reason = NULL, unauthorized_in_row = 0, faults_in_row = 0, probe_until = NULL,
            updated_at = posthaste.limit_to_clock(resume_lane.resumed_at)
        WHERE l.id = 1
        RETURNING l.* INTO lane;
    RETURN lane;
END $$;

-- ── publishing ───────────────────────────────────────────────────────────────────────────────────

-- For callers inside their own transaction: rolled back means never sent. Runs as the owner, so that its callers
-- need no right on the table and can choose neither an id nor a time. A known external id with the same content
-- returns the first event's id; with another content it is a unique violation.
CREATE OR REPLACE FUNCTION posthaste.publish(event_type text, payload json, external_event_id text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    event_id bigint;
    is_same boolean;
BEGIN
    INSERT INTO posthaste.events (event_type, payload, external_event_id)
        VALUES (publish.event_type, publish.payload, publish.external_event_id)
        ON CONFLICT (external_event_id) DO NOTHING
        RETURNING id INTO event_id;
    IF event_id IS NOT NULL THEN
        RETURN event_id;
    END IF;
    SELECT e.id, e.event_type = publish.event_type AND e.payload::text = publish.payload::text
        INTO STRICT event_id, is_same
        FROM posthaste.events e WHERE e.external_event_id = publish.external_event_id;
    IF NOT is_same THEN
        RAISE EXCEPTION 'the external_event_id belongs to event %, which has another event_type or payload', event_id
            USING ERRCODE = 'unique_violation', SCHEMA = 'posthaste', TABLE = 'events',
                CONSTRAINT = 'uniq_event_external_id';
    END IF;
    RETURN event_id;
END $$;

-- For the role that stores events in batches and may not read payloads: which of these external ids are known (by their
-- place, from 1 on), as which event, and whether that event has the same type and payload. The LIMIT keeps it one probe
-- of the index for each id.
CREATE FUNCTION posthaste.compare_events(external_event_ids text[], event_types text[], payloads json[])
RETURNS TABLE (place bigint, event_id bigint, is_same boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT given.place, e.id, e.event_type = given.event_type AND e.payload::text = given.payload::text
    FROM unnest(external_event_ids, event_types, payloads) WITH ORDINALITY
        AS given (external_event_id, event_type, payload, place)
    CROSS JOIN LATERAL (
        SELECT known.* FROM posthaste.events known WHERE known.external_event_id = given.external_event_id LIMIT 1
    ) e
$$;

-- ── dead letters ─────────────────────────────────────────────────────────────────────────────────

-- As before, with the caller's time limited: a letter that is requeued for the year 9999 would never be sent.
CREATE OR REPLACE FUNCTION posthaste.requeue(dead_letter_id bigint, requeued_at timestamptz DEFAULT now())
RETURNS TABLE (outcome text, saga_id bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    letter posthaste.dead_letters;
    made bigint;
    at timestamptz := posthaste.limit_to_clock(requeue.requeued_at);
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
        VALUES (letter.event_id, letter.subscription_id, at, letter.id, at, at)
        ON CONFLICT (requeued_from) WHERE requeued_from IS NOT NULL DO NOTHING
        RETURNING id INTO made;
    IF made IS NOT NULL THEN
        RETURN QUERY SELECT 'created', made;
    ELSE
        RETURN QUERY SELECT 'already_requeued', g.id FROM posthaste.webhook_delivery_sagas g WHERE g.requeued_from = letter.id;
    END IF;
END $$;

-- ── keys ─────────────────────────────────────────────────────────────────────────────────────────

CREATE TRIGGER key_first_state BEFORE INSERT ON posthaste.api_keys
    FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL OR NEW.last_used_at IS NOT NULL)
    EXECUTE FUNCTION posthaste.refuse('a key begins unused and not revoked');
CREATE TRIGGER key_identity BEFORE UPDATE ON posthaste.api_keys
    FOR EACH ROW WHEN (OLD.id <> NEW.id OR OLD.name <> NEW.name OR OLD.role <> NEW.role OR OLD.key_hash <> NEW.key_hash
        OR OLD.created_at <> NEW.created_at)
    EXECUTE FUNCTION posthaste.refuse('the name, role and hash of a key never change: create another key');
CREATE TRIGGER key_revoked BEFORE UPDATE ON posthaste.api_keys
    FOR EACH ROW WHEN (OLD.revoked_at IS NOT NULL AND OLD.revoked_at IS DISTINCT FROM NEW.revoked_at)
    EXECUTE FUNCTION posthaste.refuse('a revoked key never comes back: create another key');
CREATE TRIGGER key_stays BEFORE DELETE ON posthaste.api_keys
    FOR EACH ROW EXECUTE FUNCTION posthaste.refuse('keys are revoked, not deleted');
CREATE TRIGGER key_truncate BEFORE TRUNCATE ON posthaste.api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION posthaste.refuse('keys are revoked, not deleted');

-- ── what processes report ────────────────────────────────────────────────────────────────────────

-- Any login may report, so names and counts are bounded here. Rows that were reported before without these rules are
-- figures of at most two days: those that break a rule, or lie in the future, are removed.
DELETE FROM posthaste.processes
    WHERE seen_at > clock_timestamp() + interval '1 day' OR process_id !~ '^[!-~]{1,100}$' OR role !~ '^[a-z][a-z_]{0,29}$'
        OR char_length(version) NOT BETWEEN 1 AND 50;
DELETE FROM posthaste.rollups
    WHERE interval_start > clock_timestamp() + interval '1 day' OR counter !~ '^[a-z][a-z0-9_]{0,49}$'
        OR amount NOT BETWEEN 0 AND 1000000000000000;
DELETE FROM posthaste.subscription_health
    WHERE interval_start > clock_timestamp() + interval '1 day' OR last_error_code !~ '^[A-Z0-9_]{1,100}$'
        OR least(failed, within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
        within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s) < 0
        OR greatest(failed, within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
        within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s) > 1000000000000000;
ALTER TABLE posthaste.processes
    ADD CONSTRAINT process_id_form CHECK (process_id ~ '^[!-~]{1,100}$'),
    ADD CONSTRAINT process_role_form CHECK (role ~ '^[a-z][a-z_]{0,29}$'),
    ADD CONSTRAINT process_version_length CHECK (char_length(version) BETWEEN 1 AND 50);
ALTER TABLE posthaste.rollups
    ADD CONSTRAINT rollup_counter_form CHECK (counter ~ '^[a-z][a-z0-9_]{0,49}$'),
    ADD CONSTRAINT rollup_amount_range CHECK (amount BETWEEN 0 AND 1000000000000000);
ALTER TABLE posthaste.subscription_health
    ADD CONSTRAINT health_error_form CHECK (last_error_code ~ '^[A-Z0-9_]{1,100}$'),
    ADD CONSTRAINT health_counts_range CHECK (
        least(failed, within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
        within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s) >= 0
        AND greatest(failed, within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
        within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s) <= 1000000000000000);

-- As before, with the caller's time limited: a time far ahead would remove every chart. Sums of intervals that have not
-- begun, or are older than what is kept, are left out; amounts stop at the bound of their column.
CREATE OR REPLACE FUNCTION posthaste.report_presence(process_id text, role text, version text, started_at timestamptz,
    seen_at timestamptz, interval_starts timestamptz[], counters text[], amounts bigint[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    seen timestamptz := posthaste.limit_to_clock(report_presence.seen_at);
BEGIN
    INSERT INTO posthaste.processes AS p (process_id, role, version, started_at, seen_at)
        VALUES (report_presence.process_id, report_presence.role, report_presence.version,
            least(report_presence.started_at, seen), seen)
        ON CONFLICT (process_id, role) DO UPDATE SET version = excluded.version,
            started_at = excluded.started_at, seen_at = greatest(p.seen_at, excluded.seen_at);
    INSERT INTO posthaste.rollups AS r (width_s, interval_start, counter, amount)
        SELECT w.width_s, date_bin(w.width_s * interval '1 second', u.interval_start, timestamptz '1970-01-01Z'),
            u.counter, sum(u.amount)
            FROM unnest(interval_starts, counters, amounts) AS u (interval_start, counter, amount)
            CROSS JOIN (VALUES (10), (300)) AS w (width_s)
            WHERE u.interval_start > seen - interval '2 days' AND u.interval_start <= seen
            GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (width_s, interval_start, counter) DO UPDATE
            SET amount = least(r.amount + excluded.amount, 1000000000000000);
    DELETE FROM posthaste.rollups r WHERE r.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM (VALUES (10, interval '2 hours'), (300, interval '2 days')) AS kept (width_s, age)
        CROSS JOIN LATERAL (
            SELECT o.ctid FROM posthaste.rollups o
            WHERE o.width_s = kept.width_s AND o.interval_start < seen - kept.age
            ORDER BY o.width_s, o.interval_start
            LIMIT 500
            FOR UPDATE SKIP LOCKED
        ) o));
    DELETE FROM posthaste.processes p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM posthaste.processes o
        WHERE o.seen_at < seen - interval '1 day'
        ORDER BY o.seen_at
        LIMIT 100
        FOR UPDATE SKIP LOCKED));
END $$;

-- As before, with the same limits, and for subscriptions that exist.
CREATE OR REPLACE FUNCTION posthaste.report_health(seen_at timestamptz, subscription_ids bigint[], interval_starts timestamptz[],
    failed bigint[], took bigint[], error_codes text[], error_times timestamptz[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    seen timestamptz := posthaste.limit_to_clock(report_health.seen_at);
BEGIN
    INSERT INTO posthaste.subscription_health AS h (subscription_id, interval_start, failed,
            within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
            within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s, last_error_code, last_error_at)
        SELECT u.subscription_id, u.interval_start, u.failed,
            took[12 * u.place - 11], took[12 * u.place - 10], took[12 * u.place - 9], took[12 * u.place - 8], took[12 * u.place - 7], took[12 * u.place - 6],
            took[12 * u.place - 5], took[12 * u.place - 4], took[12 * u.place - 3], took[12 * u.place - 2], took[12 * u.place - 1], took[12 * u.place], u.error_code, least(u.error_at, seen)
            FROM unnest(subscription_ids, interval_starts, report_health.failed, error_codes, error_times) WITH ORDINALITY
                AS u (subscription_id, interval_start, failed, error_code, error_at, place)
            WHERE u.interval_start > seen - interval '2 days' AND u.interval_start <= seen
                AND EXISTS (SELECT FROM posthaste.subscriptions s WHERE s.id = u.subscription_id)
            ORDER BY 1, 2
        ON CONFLICT (subscription_id, interval_start) DO UPDATE SET failed = least(h.failed + excluded.failed, 1000000000000000),
            within_5ms = least(h.within_5ms + excluded.within_5ms, 1000000000000000),
            within_10ms = least(h.within_10ms + excluded.within_10ms, 1000000000000000),
            within_20ms = least(h.within_20ms + excluded.within_20ms, 1000000000000000),
            within_50ms = least(h.within_50ms + excluded.within_50ms, 1000000000000000),
            within_100ms = least(h.within_100ms + excluded.within_100ms, 1000000000000000),
            within_200ms = least(h.within_200ms + excluded.within_200ms, 1000000000000000),
            within_500ms = least(h.within_500ms + excluded.within_500ms, 1000000000000000),
            within_1s = least(h.within_1s + excluded.within_1s, 1000000000000000),
            within_2s = least(h.within_2s + excluded.within_2s, 1000000000000000),
            within_5s = least(h.within_5s + excluded.within_5s, 1000000000000000),
            within_10s = least(h.within_10s + excluded.within_10s, 1000000000000000),
            beyond_10s = least(h.beyond_10s + excluded.beyond_10s, 1000000000000000),
            last_error_code = CASE WHEN excluded.last_error_at > coalesce(h.last_error_at, '-infinity')
                THEN excluded.last_error_code ELSE h.last_error_code END,
            last_error_at = greatest(h.last_error_at, excluded.last_error_at);
    DELETE FROM posthaste.subscription_health h WHERE h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM posthaste.subscription_health o
        WHERE o.interval_start < seen - interval '2 days'
        ORDER BY o.interval_start
        LIMIT 500
        FOR UPDATE SKIP LOCKED));
END $$;
