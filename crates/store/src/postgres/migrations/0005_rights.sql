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
