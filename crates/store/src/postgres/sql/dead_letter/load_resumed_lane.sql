-- role: dead_letter_operator
-- As it is before it is resumed, for the audit. The role may not lock it: of two that resume it at once, both may see it paused.
-- index: outbox_lane_pkey; there is one row.
SELECT l.paused_at, l.reason, l.rate, l.unauthorized_in_row, l.faults_in_row, l.probe_until, l.next_send_at, l.slowed_at,
    l.updated_at
FROM posthaste.outbox_lane l
WHERE l.id = 1
