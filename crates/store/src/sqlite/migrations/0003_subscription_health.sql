-- How the attempts for each subscription go, in intervals of ten minutes: so many failed, so many succeeded within
-- which time: the twin of PostgreSQL's.

CREATE TABLE subscription_health (
    subscription_id INTEGER NOT NULL,
    interval_start  INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    within_5ms      INTEGER NOT NULL,
    within_10ms     INTEGER NOT NULL,
    within_20ms     INTEGER NOT NULL,
    within_50ms     INTEGER NOT NULL,
    within_100ms    INTEGER NOT NULL,
    within_200ms    INTEGER NOT NULL,
    within_500ms    INTEGER NOT NULL,
    within_1s       INTEGER NOT NULL,
    within_2s       INTEGER NOT NULL,
    within_5s       INTEGER NOT NULL,
    within_10s      INTEGER NOT NULL,
    beyond_10s      INTEGER NOT NULL,
    last_error_code TEXT,
    last_error_at   INTEGER,
    PRIMARY KEY (subscription_id, interval_start)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_health_interval ON subscription_health (interval_start);

CREATE VIEW health_reports AS
    SELECT NULL AS seen_at, NULL AS subscription_id, NULL AS interval_start, NULL AS failed,
        NULL AS within_5ms, NULL AS within_10ms, NULL AS within_20ms, NULL AS within_50ms,
        NULL AS within_100ms, NULL AS within_200ms, NULL AS within_500ms, NULL AS within_1s,
        NULL AS within_2s, NULL AS within_5s, NULL AS within_10s, NULL AS beyond_10s,
        NULL AS last_error_code, NULL AS last_error_at WHERE 0;
-- What is older than two days goes in small parts with the reports that come anyway.
CREATE TRIGGER health_report_insert INSTEAD OF INSERT ON health_reports BEGIN
    INSERT INTO subscription_health (subscription_id, interval_start, failed,
            within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
            within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s, last_error_code, last_error_at)
        VALUES (NEW.subscription_id, NEW.interval_start, NEW.failed,
            NEW.within_5ms, NEW.within_10ms, NEW.within_20ms, NEW.within_50ms, NEW.within_100ms, NEW.within_200ms,
            NEW.within_500ms, NEW.within_1s, NEW.within_2s, NEW.within_5s, NEW.within_10s, NEW.beyond_10s, NEW.last_error_code, NEW.last_error_at)
        ON CONFLICT (subscription_id, interval_start) DO UPDATE SET failed = failed + excluded.failed,
            within_5ms = within_5ms + excluded.within_5ms,
            within_10ms = within_10ms + excluded.within_10ms,
            within_20ms = within_20ms + excluded.within_20ms,
            within_50ms = within_50ms + excluded.within_50ms,
            within_100ms = within_100ms + excluded.within_100ms,
            within_200ms = within_200ms + excluded.within_200ms,
            within_500ms = within_500ms + excluded.within_500ms,
            within_1s = within_1s + excluded.within_1s,
            within_2s = within_2s + excluded.within_2s,
            within_5s = within_5s + excluded.within_5s,
            within_10s = within_10s + excluded.within_10s,
            beyond_10s = beyond_10s + excluded.beyond_10s,
            last_error_code = CASE WHEN excluded.last_error_at > coalesce(last_error_at, -1)
                THEN excluded.last_error_code ELSE last_error_code END,
            last_error_at = CASE WHEN excluded.last_error_at > coalesce(last_error_at, -1)
                THEN excluded.last_error_at ELSE last_error_at END;
    DELETE FROM subscription_health WHERE (subscription_id, interval_start) IN (
        SELECT o.subscription_id, o.interval_start FROM subscription_health o INDEXED BY idx_health_interval
        WHERE o.interval_start < NEW.seen_at - 172800000000 LIMIT 10);
END;
