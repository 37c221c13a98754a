-- What operators look at: counters in two widths, and subscriptions found by the types they ever had. The lock
-- of the index holds up changes of subscriptions for a moment, and no event and no delivery.

ALTER TABLE posthaste.rollups ADD COLUMN width_s integer NOT NULL DEFAULT 10
    CONSTRAINT rollup_width CHECK (width_s IN (10, 300));
ALTER TABLE posthaste.rollups DROP CONSTRAINT rollups_pkey;
ALTER TABLE posthaste.rollups ADD PRIMARY KEY (width_s, interval_start, counter);
CREATE INDEX idx_process_seen ON posthaste.processes (seen_at);
CREATE INDEX idx_subscription_change_type ON posthaste.subscription_changes (event_type, subscription_id);

-- Adds every amount twice: to its ten seconds, kept for two hours, and to its five minutes, kept for two days.
-- What is older goes in small parts with the reports that come anyway, so nobody has to clean up. Rows are added
-- in key order and deleted only if nobody holds them: two processes never wait for each other in a circle.
CREATE OR REPLACE FUNCTION posthaste.report_presence(process_id text, role text, version text, started_at timestamptz,
    seen_at timestamptz, interval_starts timestamptz[], counters text[], amounts bigint[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO posthaste.processes AS p (process_id, role, version, started_at, seen_at)
        VALUES (report_presence.process_id, report_presence.role, report_presence.version,
            report_presence.started_at, report_presence.seen_at)
        ON CONFLICT (process_id, role) DO UPDATE SET version = excluded.version,
            started_at = excluded.started_at, seen_at = greatest(p.seen_at, excluded.seen_at);
    INSERT INTO posthaste.rollups AS r (width_s, interval_start, counter, amount)
        SELECT w.width_s, date_bin(w.width_s * interval '1 second', u.interval_start, timestamptz '1970-01-01Z'),
            u.counter, sum(u.amount)
            FROM unnest(interval_starts, counters, amounts) AS u (interval_start, counter, amount)
            CROSS JOIN (VALUES (10), (300)) AS w (width_s)
            GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (width_s, interval_start, counter) DO UPDATE SET amount = r.amount + excluded.amount;
    DELETE FROM posthaste.rollups r WHERE r.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM (VALUES (10, interval '2 hours'), (300, interval '2 days')) AS kept (width_s, age)
        CROSS JOIN LATERAL (
            SELECT o.ctid FROM posthaste.rollups o
            WHERE o.width_s = kept.width_s AND o.interval_start < report_presence.seen_at - kept.age
            ORDER BY o.width_s, o.interval_start
            LIMIT 500
            FOR UPDATE SKIP LOCKED
        ) o));
    DELETE FROM posthaste.processes p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM posthaste.processes o
        WHERE o.seen_at < report_presence.seen_at - interval '1 day'
        ORDER BY o.seen_at
        LIMIT 100
        FOR UPDATE SKIP LOCKED));
END $$;
