-- What operators look at: counters in two widths, and subscriptions found by the types they ever had: the twin
-- of PostgreSQL's. A key of a table cannot be changed here, so the counters move to a new one.

DROP TRIGGER presence_report_insert;
DROP TRIGGER rollup_report_insert;

CREATE TABLE rollups_in_widths (
    width_s        INTEGER NOT NULL DEFAULT 10 CONSTRAINT rollup_width CHECK (width_s IN (10, 300)),
    interval_start INTEGER NOT NULL,
    counter        TEXT NOT NULL,
    amount         INTEGER NOT NULL,
    PRIMARY KEY (width_s, interval_start, counter)
) STRICT;
INSERT INTO rollups_in_widths (width_s, interval_start, counter, amount)
    SELECT 10, interval_start, counter, amount FROM rollups;
DROP TABLE rollups;
ALTER TABLE rollups_in_widths RENAME TO rollups;
CREATE INDEX idx_process_seen ON processes (seen_at);
CREATE INDEX idx_subscription_change_type ON subscription_changes (event_type, subscription_id);

-- Old counters and long-gone processes go in small parts with the reports that come anyway.
CREATE TRIGGER presence_report_insert INSTEAD OF INSERT ON presence_reports BEGIN
    INSERT INTO processes (process_id, role, version, started_at, seen_at)
        VALUES (NEW.process_id, NEW.role, NEW.version, NEW.started_at, NEW.seen_at)
        ON CONFLICT (process_id, role) DO UPDATE SET version = excluded.version,
            started_at = excluded.started_at, seen_at = max(seen_at, excluded.seen_at);
    DELETE FROM rollups WHERE rowid IN (SELECT o.rowid FROM rollups o
        WHERE o.width_s = 10 AND o.interval_start < NEW.seen_at - 7200000000 LIMIT 500);
    DELETE FROM rollups WHERE rowid IN (SELECT o.rowid FROM rollups o
        WHERE o.width_s = 300 AND o.interval_start < NEW.seen_at - 172800000000 LIMIT 500);
    DELETE FROM processes WHERE rowid IN (SELECT o.rowid FROM processes o
        WHERE o.seen_at < NEW.seen_at - 86400000000 LIMIT 100);
END;
-- Every amount counts twice: within its ten seconds, and within its five minutes.
CREATE TRIGGER rollup_report_insert INSTEAD OF INSERT ON rollup_reports BEGIN
    INSERT INTO rollups (width_s, interval_start, counter, amount)
        VALUES (10, NEW.interval_start / 10000000 * 10000000, NEW.counter, NEW.amount)
        ON CONFLICT (width_s, interval_start, counter) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO rollups (width_s, interval_start, counter, amount)
        VALUES (300, NEW.interval_start / 300000000 * 300000000, NEW.counter, NEW.amount)
        ON CONFLICT (width_s, interval_start, counter) DO UPDATE SET amount = amount + excluded.amount;
END;
