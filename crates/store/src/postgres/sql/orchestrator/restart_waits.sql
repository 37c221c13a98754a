-- role: saga_orchestrator
-- Reschedules retries from the times $2 to the times $3, unless they have changed since they were read.
-- index: webhook_delivery_sagas_pkey.
-- planner: status in a CASE, array from a subselect.
UPDATE posthaste.webhook_delivery_sagas g
SET next_attempt_at = moved.until, updated_at = $4::timestamptz
FROM unnest((SELECT $1::bigint[]), (SELECT $2::timestamptz[]), (SELECT $3::timestamptz[]))
    AS moved (saga_id, was, until)
WHERE g.id = moved.saga_id AND g.next_attempt_at = moved.was
    AND CASE WHEN g.status = 'PendingRetry' THEN true ELSE false END
RETURNING g.id
