-- role: viewer
-- Returns the single row of the lane.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at,
    l.slowed_at,
    l.updated_at
FROM posthaste.outbox_lane l WHERE l.id = 1
