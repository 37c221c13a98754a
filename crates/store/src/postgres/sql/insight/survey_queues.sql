-- role: viewer
-- Returns the depth of each queue, counted up to 100,000, the time of its oldest entry, and the number of stuck jobs
-- and orders. $1 is now, $2 the lease in ms; $3 and $4 are the times before which a lease or a sending order is stuck.
-- index: routing_queue_pkey, events_pkey, idx_job_status_lease, finished_jobs_pkey, webhook_delivery_jobs_pkey,
-- idx_order_status_next. Ranges are row comparisons with an ORDER BY of all their columns, which only these indexes
-- serve.
-- The time when a job finished is not stored. It is computed: the lease began $2 ms before lease_until, and the attempt
-- took duration_ms.
SELECT
    (SELECT count(*) FROM (SELECT FROM posthaste.routing_queue LIMIT 100000) q),
    (SELECT e.created_at FROM posthaste.events e
        WHERE e.id = (SELECT q.event_id FROM posthaste.routing_queue q ORDER BY q.event_id LIMIT 1)),
    (SELECT count(*) FROM (
        SELECT FROM posthaste.webhook_delivery_jobs j
        WHERE (j.status, j.lease_until) >= ('Pending', '-infinity')
            AND (j.status, j.lease_until) <= ('Pending', 'infinity')
        ORDER BY j.status, j.lease_until LIMIT 100000) j),
    (SELECT j.lease_until FROM posthaste.webhook_delivery_jobs j
        WHERE (j.status, j.lease_until) >= ('Pending', '-infinity')
            AND (j.status, j.lease_until) <= ('Pending', 'infinity')
        ORDER BY j.status, j.lease_until LIMIT 1),
    (SELECT count(*) FROM (SELECT FROM posthaste.finished_jobs LIMIT 100000) f),
    (SELECT min((
            SELECT j.lease_until - ($2::bigint - coalesce(j.duration_ms, $2::bigint)) * interval '1 millisecond'
            FROM posthaste.webhook_delivery_jobs j WHERE j.id = f.job_id))
        FROM (SELECT f.job_id FROM posthaste.finished_jobs f ORDER BY f.job_id LIMIT 100) f),
    (SELECT count(*) FROM (
        SELECT FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('queued', '-infinity')
            AND (o.status, o.next_attempt_at) <= ('queued', 'infinity')
        ORDER BY o.status, o.next_attempt_at LIMIT 100000) o)
    + (SELECT count(*) FROM (
        SELECT FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('failed', '-infinity')
            AND (o.status, o.next_attempt_at) <= ('failed', $1::timestamptz)
        ORDER BY o.status, o.next_attempt_at LIMIT 100000) o),
    least(
        (SELECT o.next_attempt_at FROM posthaste.outbox_orders o
            WHERE (o.status, o.next_attempt_at) >= ('queued', '-infinity')
                AND (o.status, o.next_attempt_at) <= ('queued', 'infinity')
            ORDER BY o.status, o.next_attempt_at LIMIT 1),
        (SELECT o.next_attempt_at FROM posthaste.outbox_orders o
            WHERE (o.status, o.next_attempt_at) >= ('failed', '-infinity')
                AND (o.status, o.next_attempt_at) <= ('failed', $1::timestamptz)
            ORDER BY o.status, o.next_attempt_at LIMIT 1)),
    (SELECT count(*) FROM (
        SELECT FROM posthaste.webhook_delivery_jobs j
        WHERE (j.status, j.lease_until) >= ('Leased', '-infinity')
            AND (j.status, j.lease_until) < ('Leased', $3::timestamptz)
        ORDER BY j.status, j.lease_until LIMIT 100000) j),
    (SELECT count(*) FROM (
        SELECT FROM posthaste.outbox_orders o
        WHERE (o.status, o.next_attempt_at) >= ('sending', '-infinity')
            AND (o.status, o.next_attempt_at) <= ('sending', 'infinity')
            AND o.updated_at < $4::timestamptz
        ORDER BY o.status, o.next_attempt_at LIMIT 100000) o)
