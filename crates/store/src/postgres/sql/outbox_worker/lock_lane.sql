-- role: outbox_worker
-- Returns and locks the single row of the lane. A transaction that may change the lane takes this lock first.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at,
    l.slowed_at,
    l.updated_at
FROM posthaste.outbox_lane l WHERE l.id = 1 FOR NO KEY UPDATE
