-- role: dead_letter_operator
-- Returns the lane before it is resumed, for the audit. The role may not lock the row, so two concurrent calls may both
-- see the lane paused.
-- index: outbox_lane_pkey; there is one row.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at,
    l.slowed_at,
    l.updated_at
FROM posthaste.outbox_lane l
WHERE l.id = 1
