-- role: dead_letter_operator
-- index: dead_letters' key in its own order, events' key
-- What does not match is left out by whoever reads the rows, so that a page knows what it looked at.
SELECT d.id, d.subscription_id, e.event_type, d.failed_at
FROM dead_letters d
CROSS JOIN events e ON e.id = d.event_id
WHERE d.id > ?1
ORDER BY d.id
LIMIT ?2
