-- role: viewer
-- Returns the depth of each queue, counted up to 100,000, the time of its oldest entry, and the number of stuck jobs
-- and orders.
-- index: primary keys of routing_queue, events, finished_jobs and webhook_delivery_jobs; idx_job_status_lease;
-- idx_order_status_next
-- The time when a job finished is not stored. It is computed: the lease began ?2 ms before lease_until, and the attempt
-- took duration_ms.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM routing_queue LIMIT 100000)),
    (SELECT e.created_at FROM events e WHERE e.id = (SELECT min(q.event_id) FROM routing_queue q)),
    (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery_jobs INDEXED BY idx_job_status_lease
        WHERE status = 'Pending' LIMIT 100000)),
    (SELECT min(lease_until) FROM webhook_delivery_jobs INDEXED BY idx_job_status_lease WHERE status = 'Pending'),
    (SELECT count(*) FROM (SELECT 1 FROM finished_jobs LIMIT 100000)),
    (SELECT min(j.lease_until - 1000 * (?2 - coalesce(j.duration_ms, ?2)))
        FROM (SELECT f.job_id FROM finished_jobs f ORDER BY f.job_id LIMIT 100) f
        CROSS JOIN webhook_delivery_jobs j ON j.id = f.job_id),
    (SELECT count(*) FROM (SELECT 1 FROM outbox_orders INDEXED BY idx_order_status_next
        WHERE status = 'queued' LIMIT 100000))
    + (SELECT count(*) FROM (SELECT 1 FROM outbox_orders INDEXED BY idx_order_status_next
        WHERE status = 'failed' AND next_attempt_at <= ?1 LIMIT 100000)),
    (SELECT min(next_attempt_at) FROM outbox_orders INDEXED BY idx_order_status_next WHERE status = 'queued'),
    (SELECT min(next_attempt_at) FROM outbox_orders INDEXED BY idx_order_status_next
        WHERE status = 'failed' AND next_attempt_at <= ?1),
    (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery_jobs INDEXED BY idx_job_status_lease
        WHERE status = 'Leased' AND lease_until < ?3 LIMIT 100000)),
    (SELECT count(*) FROM (SELECT 1 FROM outbox_orders INDEXED BY idx_order_status_next
        WHERE status = 'sending' AND updated_at < ?4 LIMIT 100000))
