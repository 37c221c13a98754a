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
