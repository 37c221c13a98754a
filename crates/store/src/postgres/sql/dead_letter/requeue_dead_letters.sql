-- role: dead_letter_operator
-- One call of the owner's function for each letter, in the order of the input; at most one saga for each, ever.
-- Sorted and distinct ids (the caller's part), so that two calls never wait for each other in a circle.
SELECT told.id, made.outcome, made.saga_id
FROM unnest($1::bigint[]) AS told (id)
CROSS JOIN LATERAL posthaste.requeue(told.id, $2::timestamptz) AS made
