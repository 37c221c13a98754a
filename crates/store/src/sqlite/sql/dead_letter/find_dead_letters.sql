-- role: dead_letter_operator
-- Returns the next ?2 dead letters after ?1, oldest first. The caller applies the filter, because it must know the last
-- row examined.
-- index: primary keys of dead_letters (in order) and events
SELECT d.id, d.subscription_id, e.event_type, e.tenant, d.failed_at
FROM dead_letters d
CROSS JOIN events e ON e.id = d.event_id
WHERE d.id > ?1
ORDER BY d.id
LIMIT ?2
