-- role: dead_letter_operator
-- Returns the lane before it is resumed, for the audit.
-- index: primary key of outbox_lane, in the view; there is one row
SELECT paused_at, reason, rate, unauthorized_in_row, faults_in_row, probe_until, next_send_at, slowed_at, updated_at
FROM resume_lane
