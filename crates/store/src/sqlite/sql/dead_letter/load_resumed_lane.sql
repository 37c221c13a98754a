-- role: dead_letter_operator
-- index: the lane's key, in the view; there is one row
SELECT paused_at, reason, rate, unauthorized_in_row, faults_in_row, probe_until, next_send_at, slowed_at, updated_at
FROM resume_lane
