-- role: dead_letter_operator
-- The owner's function changes the one row; the role has no right on the table.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at, l.slowed_at,
    l.updated_at
FROM posthaste.resume_lane($1::timestamptz) l
