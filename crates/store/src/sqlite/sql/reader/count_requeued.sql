-- role: viewer
-- Counts the sagas that were requeued from the dead letters ?1 to ?2 by state: examined, delivered, waiting,
-- dead-lettered. Also returns the last dead letter examined. Examines 500 rows; the caller continues after the last
-- row.
-- index: uniq_saga_requeued_from; primary key of events for the type
SELECT count(*) AS looked_at,
    count(*) FILTER (WHERE taken.fits AND taken.status = 'Completed') AS delivered,
    count(*) FILTER (WHERE taken.fits AND taken.status IN ('Pending', 'InProgress', 'PendingRetry')) AS waiting,
    count(*) FILTER (WHERE taken.fits AND taken.status = 'DeadLettered') AS given_up,
    max(taken.requeued_from) AS reached
FROM (
    SELECT s.status, s.requeued_from, s.created_at >= ?3 AND (?4 IS NULL OR s.subscription_id = ?4)
        AND (?5 IS NULL OR (SELECT e.event_type FROM events e WHERE e.id = s.event_id) = ?5) AS fits
    FROM webhook_delivery_sagas s INDEXED BY uniq_saga_requeued_from
    WHERE s.requeued_from >= ?1 AND s.requeued_from <= ?2
    ORDER BY s.requeued_from LIMIT 500
) taken
