-- role: viewer
-- Returns the dead letter that a saga was requeued from, with its saga; the saga's own dead letter; and the saga that
-- was requeued from the latter.
-- index: webhook_delivery_sagas_pkey, dead_letters_pkey, idx_dead_saga, uniq_saga_requeued_from; one row of each.
SELECT g.requeued_from, (SELECT d.saga_id FROM posthaste.dead_letters d WHERE d.id = g.requeued_from) AS made_from_saga,
    g.letter_id,
    (SELECT again.id FROM posthaste.webhook_delivery_sagas again WHERE again.requeued_from = g.letter_id) AS requeued_as
FROM (
    SELECT g.requeued_from, (SELECT d.id FROM posthaste.dead_letters d WHERE d.saga_id = g.id LIMIT 1) AS letter_id
    FROM posthaste.webhook_delivery_sagas g WHERE g.id = $1::bigint
) g
