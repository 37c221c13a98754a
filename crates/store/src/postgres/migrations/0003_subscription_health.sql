-- How the attempts for each subscription go, in intervals of ten minutes: so many failed, so many succeeded within
-- which time. A table of its own, which nothing that runs has to wait for.

CREATE TABLE posthaste.subscription_health (
    subscription_id bigint NOT NULL,
    interval_start  timestamptz NOT NULL,
    failed          bigint NOT NULL,
    within_5ms      bigint NOT NULL,
    within_10ms     bigint NOT NULL,
    within_20ms     bigint NOT NULL,
    within_50ms     bigint NOT NULL,
    within_100ms    bigint NOT NULL,
    within_200ms    bigint NOT NULL,
    within_500ms    bigint NOT NULL,
    within_1s       bigint NOT NULL,
    within_2s       bigint NOT NULL,
    within_5s       bigint NOT NULL,
    within_10s      bigint NOT NULL,
    beyond_10s      bigint NOT NULL,
    last_error_code text,
    last_error_at   timestamptz,
    PRIMARY KEY (subscription_id, interval_start)
) WITH (fillfactor = 50);
CREATE INDEX idx_health_interval ON posthaste.subscription_health (interval_start);

-- Every role may call this and no role may write the table behind it. Twelve numbers of `took` belong to each
-- subscription. What is older than two days goes in small parts with the reports that come anyway. Rows are added in
-- key order and deleted only if nobody holds them: two processes never wait for each other in a circle.
CREATE FUNCTION posthaste.report_health(seen_at timestamptz, subscription_ids bigint[], interval_starts timestamptz[],
    failed bigint[], took bigint[], error_codes text[], error_times timestamptz[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO posthaste.subscription_health AS h (subscription_id, interval_start, failed,
            within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
            within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s, last_error_code, last_error_at)
        SELECT u.subscription_id, u.interval_start, u.failed,
            took[12 * u.place - 11], took[12 * u.place - 10], took[12 * u.place - 9], took[12 * u.place - 8], took[12 * u.place - 7], took[12 * u.place - 6],
            took[12 * u.place - 5], took[12 * u.place - 4], took[12 * u.place - 3], took[12 * u.place - 2], took[12 * u.place - 1], took[12 * u.place], u.error_code, u.error_at
            FROM unnest(subscription_ids, interval_starts, report_health.failed, error_codes, error_times) WITH ORDINALITY
                AS u (subscription_id, interval_start, failed, error_code, error_at, place)
            ORDER BY 1, 2
        ON CONFLICT (subscription_id, interval_start) DO UPDATE SET failed = h.failed + excluded.failed,
            within_5ms = h.within_5ms + excluded.within_5ms,
            within_10ms = h.within_10ms + excluded.within_10ms,
            within_20ms = h.within_20ms + excluded.within_20ms,
            within_50ms = h.within_50ms + excluded.within_50ms,
            within_100ms = h.within_100ms + excluded.within_100ms,
            within_200ms = h.within_200ms + excluded.within_200ms,
            within_500ms = h.within_500ms + excluded.within_500ms,
            within_1s = h.within_1s + excluded.within_1s,
            within_2s = h.within_2s + excluded.within_2s,
            within_5s = h.within_5s + excluded.within_5s,
            within_10s = h.within_10s + excluded.within_10s,
            beyond_10s = h.beyond_10s + excluded.beyond_10s,
            last_error_code = CASE WHEN excluded.last_error_at > coalesce(h.last_error_at, '-infinity')
                THEN excluded.last_error_code ELSE h.last_error_code END,
            last_error_at = greatest(h.last_error_at, excluded.last_error_at);
    DELETE FROM posthaste.subscription_health h WHERE h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM posthaste.subscription_health o
        WHERE o.interval_start < report_health.seen_at - interval '2 days'
        ORDER BY o.interval_start
        LIMIT 500
        FOR UPDATE SKIP LOCKED));
END $$;
