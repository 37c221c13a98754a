-- role: dead_letter_operator
-- Calls a SECURITY DEFINER function once for each dead letter, in input order. At most one saga is ever created from a
-- dead letter.
-- The caller passes sorted, distinct ids, so that concurrent calls cannot deadlock.
SELECT requested.id, created.outcome, created.saga_id
FROM unnest($1::bigint[]) AS requested (id)
CROSS JOIN LATERAL posthaste.requeue(requested.id, $2::timestamptz) AS created
