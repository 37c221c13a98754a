-- role: viewer
-- Returns the single row of the lane.
-- index: primary key of outbox_lane
SELECT paused_at, reason, rate, unauthorized_in_row, faults_in_row, probe_until, next_send_at, slowed_at, updated_at
FROM outbox_lane WHERE id = 1
