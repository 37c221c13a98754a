-- role: viewer
-- index: the lane's key; there is one row
SELECT paused_at, reason, rate, unauthorized_in_row, faults_in_row, probe_until, next_send_at, slowed_at, updated_at
FROM outbox_lane WHERE id = 1
