-- role: dead_letter_operator
-- Resumes the lane and returns its row. A SECURITY DEFINER function updates it; the role has no rights on the table.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at,
    l.slowed_at,
    l.updated_at
FROM posthaste.resume_lane($1::timestamptz) l
