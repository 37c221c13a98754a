-- role: outbox_worker
-- Writes the single row of the lane.
UPDATE posthaste.outbox_lane
SET paused_at = $1::timestamptz, reason = $2::text, rate = $3::double precision, unauthorized_in_row = $4::integer,
    faults_in_row = $5::integer, probe_until = $6::timestamptz, next_send_at = $7::timestamptz,
        slowed_at = $8::timestamptz,
    updated_at = $9::timestamptz
WHERE id = 1
