-- Narrower rights for every role: the twin of PostgreSQL's. Times are not limited here: the process that writes the
-- file is the only caller, and its clock is the one that counts.

-- ── the lane ─────────────────────────────────────────────────────────────────────────────────────

-- An operator lets the lane continue: insert (resumed_at), then read the lane.
CREATE VIEW resume_lane AS
    SELECT NULL AS resumed_at, l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until,
        l.next_send_at, l.slowed_at, l.updated_at
    FROM outbox_lane l WHERE l.id = 1;
CREATE TRIGGER resume_lane_insert INSTEAD OF INSERT ON resume_lane BEGIN
    UPDATE outbox_lane
        SET paused_at = NULL, reason = NULL, unauthorized_in_row = 0, faults_in_row = 0, probe_until = NULL,
            updated_at = NEW.resumed_at
        WHERE id = 1;
END;

-- ── publishing ───────────────────────────────────────────────────────────────────────────────────

-- Refuses an event whose external id belongs to an event with another type or payload, and stores nothing: insert
-- (external_event_id, event_type, payload). The role that stores events may not read payloads.
CREATE VIEW compare_events AS
    SELECT NULL AS external_event_id, NULL AS event_type, NULL AS payload WHERE 0;
CREATE TRIGGER compare_events_insert INSTEAD OF INSERT ON compare_events
WHEN EXISTS (SELECT 1 FROM events e WHERE e.external_event_id = NEW.external_event_id
    AND (e.event_type IS NOT NEW.event_type OR e.payload IS NOT NEW.payload))
BEGIN
    SELECT RAISE(ABORT, 'INSERT of events refused: the external id belongs to another content');
END;

-- ── keys ─────────────────────────────────────────────────────────────────────────────────────────

CREATE TRIGGER key_first_state BEFORE INSERT ON api_keys WHEN NEW.revoked_at IS NOT NULL OR NEW.last_used_at IS NOT NULL BEGIN
    SELECT RAISE(ABORT, 'INSERT of api_keys refused: a key begins unused and not revoked');
END;
CREATE TRIGGER key_identity BEFORE UPDATE ON api_keys
WHEN OLD.id IS NOT NEW.id OR OLD.name IS NOT NEW.name OR OLD.role IS NOT NEW.role OR OLD.key_hash IS NOT NEW.key_hash
    OR OLD.created_at IS NOT NEW.created_at
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of api_keys refused: the name, role and hash of a key never change: create another key');
END;
CREATE TRIGGER key_revoked BEFORE UPDATE ON api_keys
WHEN OLD.revoked_at IS NOT NULL AND OLD.revoked_at IS NOT NEW.revoked_at
BEGIN
    SELECT RAISE(ABORT, 'UPDATE of api_keys refused: a revoked key never comes back: create another key');
END;
-- A REPLACE is a DELETE and an INSERT.
CREATE TRIGGER key_stays BEFORE DELETE ON api_keys BEGIN
    SELECT RAISE(ABORT, 'DELETE of api_keys refused: keys are revoked, not deleted');
END;

-- ── what processes report ────────────────────────────────────────────────────────────────────────

-- Names and counts are bounded as on PostgreSQL. A table cannot be given a CHECK here, so the triggers refuse, which are
-- the only way into these tables.
DROP TRIGGER presence_report_insert;
DROP TRIGGER rollup_report_insert;
DROP TRIGGER health_report_insert;

CREATE TRIGGER presence_report_insert INSTEAD OF INSERT ON presence_reports BEGIN
    SELECT RAISE(ABORT, 'INSERT of processes refused: the name of the process, its role or its version is not one')
        WHERE (length(NEW.process_id) BETWEEN 1 AND 100 AND NEW.process_id NOT GLOB '*[^!-~]*'
            AND length(NEW.role) <= 30 AND NEW.role GLOB '[a-z]*' AND NEW.role NOT GLOB '*[^a-z_]*'
            AND length(NEW.version) BETWEEN 1 AND 50) IS NOT TRUE;
    INSERT INTO processes (process_id, role, version, started_at, seen_at)
        VALUES (NEW.process_id, NEW.role, NEW.version, min(NEW.started_at, NEW.seen_at), NEW.seen_at)
        ON CONFLICT (process_id, role) DO UPDATE SET version = excluded.version,
            started_at = excluded.started_at, seen_at = max(seen_at, excluded.seen_at);
    DELETE FROM rollups WHERE rowid IN (SELECT o.rowid FROM rollups o
        WHERE o.width_s = 10 AND o.interval_start < NEW.seen_at - 7200000000 LIMIT 500);
    DELETE FROM rollups WHERE rowid IN (SELECT o.rowid FROM rollups o
        WHERE o.width_s = 300 AND o.interval_start < NEW.seen_at - 172800000000 LIMIT 500);
    DELETE FROM processes WHERE rowid IN (SELECT o.rowid FROM processes o
        WHERE o.seen_at < NEW.seen_at - 86400000000 LIMIT 100);
END;
CREATE TRIGGER rollup_report_insert INSTEAD OF INSERT ON rollup_reports BEGIN
    SELECT RAISE(ABORT, 'INSERT of rollups refused: the name of the counter or its amount is out of bounds')
        WHERE (length(NEW.counter) <= 50 AND NEW.counter GLOB '[a-z]*' AND NEW.counter NOT GLOB '*[^a-z0-9_]*'
            AND NEW.amount BETWEEN 0 AND 1000000000000000) IS NOT TRUE;
    INSERT INTO rollups (width_s, interval_start, counter, amount)
        VALUES (10, NEW.interval_start / 10000000 * 10000000, NEW.counter, NEW.amount)
        ON CONFLICT (width_s, interval_start, counter) DO UPDATE SET amount = min(amount + excluded.amount, 1000000000000000);
    INSERT INTO rollups (width_s, interval_start, counter, amount)
        VALUES (300, NEW.interval_start / 300000000 * 300000000, NEW.counter, NEW.amount)
        ON CONFLICT (width_s, interval_start, counter) DO UPDATE SET amount = min(amount + excluded.amount, 1000000000000000);
END;
CREATE TRIGGER health_report_insert INSTEAD OF INSERT ON health_reports BEGIN
    SELECT RAISE(ABORT, 'INSERT of subscription_health refused: a count or the error code is out of bounds')
        WHERE (min(NEW.failed, NEW.within_5ms, NEW.within_10ms, NEW.within_20ms, NEW.within_50ms, NEW.within_100ms, NEW.within_200ms,
            NEW.within_500ms, NEW.within_1s, NEW.within_2s, NEW.within_5s, NEW.within_10s, NEW.beyond_10s) >= 0
            AND max(NEW.failed, NEW.within_5ms, NEW.within_10ms, NEW.within_20ms, NEW.within_50ms, NEW.within_100ms, NEW.within_200ms,
            NEW.within_500ms, NEW.within_1s, NEW.within_2s, NEW.within_5s, NEW.within_10s, NEW.beyond_10s) <= 1000000000000000
            AND (NEW.last_error_code IS NULL
                OR (length(NEW.last_error_code) BETWEEN 1 AND 100 AND NEW.last_error_code NOT GLOB '*[^A-Z0-9_]*'))) IS NOT TRUE;
    INSERT INTO subscription_health (subscription_id, interval_start, failed,
            within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
            within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s, last_error_code, last_error_at)
        SELECT s.id, NEW.interval_start, NEW.failed,
            NEW.within_5ms, NEW.within_10ms, NEW.within_20ms, NEW.within_50ms, NEW.within_100ms, NEW.within_200ms,
            NEW.within_500ms, NEW.within_1s, NEW.within_2s, NEW.within_5s, NEW.within_10s, NEW.beyond_10s, NEW.last_error_code, NEW.last_error_at
            FROM subscriptions s WHERE s.id = NEW.subscription_id
        ON CONFLICT (subscription_id, interval_start) DO UPDATE SET failed = min(failed + excluded.failed, 1000000000000000),
            within_5ms = min(within_5ms + excluded.within_5ms, 1000000000000000),
            within_10ms = min(within_10ms + excluded.within_10ms, 1000000000000000),
            within_20ms = min(within_20ms + excluded.within_20ms, 1000000000000000),
            within_50ms = min(within_50ms + excluded.within_50ms, 1000000000000000),
            within_100ms = min(within_100ms + excluded.within_100ms, 1000000000000000),
            within_200ms = min(within_200ms + excluded.within_200ms, 1000000000000000),
            within_500ms = min(within_500ms + excluded.within_500ms, 1000000000000000),
            within_1s = min(within_1s + excluded.within_1s, 1000000000000000),
            within_2s = min(within_2s + excluded.within_2s, 1000000000000000),
            within_5s = min(within_5s + excluded.within_5s, 1000000000000000),
            within_10s = min(within_10s + excluded.within_10s, 1000000000000000),
            beyond_10s = min(beyond_10s + excluded.beyond_10s, 1000000000000000),
            last_error_code = CASE WHEN excluded.last_error_at > coalesce(last_error_at, -1)
                THEN excluded.last_error_code ELSE last_error_code END,
            last_error_at = CASE WHEN excluded.last_error_at > coalesce(last_error_at, -1)
                THEN excluded.last_error_at ELSE last_error_at END;
    DELETE FROM subscription_health WHERE (subscription_id, interval_start) IN (
        SELECT o.subscription_id, o.interval_start FROM subscription_health o INDEXED BY idx_health_interval
        WHERE o.interval_start < NEW.seen_at - 172800000000 LIMIT 10);
END;
