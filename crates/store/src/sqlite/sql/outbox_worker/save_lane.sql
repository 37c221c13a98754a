-- role: outbox_worker
-- Writes the single row of the lane.
-- index: primary key of outbox_lane
UPDATE outbox_lane
SET paused_at = ?1, reason = ?2, rate = ?3, unauthorized_in_row = ?4, faults_in_row = ?5, probe_until = ?6,
    next_send_at = ?7, slowed_at = ?8, updated_at = ?9
WHERE id = 1
