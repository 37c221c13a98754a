-- role: outbox_worker
-- The one row of the lane, for a transaction that may change it: it is the first thing such a one locks.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at, l.slowed_at,
    l.updated_at
FROM posthaste.outbox_lane l WHERE l.id = 1 FOR NO KEY UPDATE
