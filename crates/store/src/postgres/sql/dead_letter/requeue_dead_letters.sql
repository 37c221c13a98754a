-- role: dead_letter_operator
-- Calls a SECURITY DEFINER function once for each dead letter, in input order. At most one saga is ever created from a
-- dead letter.
-- The caller passes sorted, distinct ids, so that concurrent calls cannot deadlock.
SELECT told.id, made.outcome, made.saga_id
FROM unnest($1::bigint[]) AS told (id)
CROSS JOIN LATERAL posthaste.requeue(told.id, $2::timestamptz) AS made
