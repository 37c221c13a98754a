-- role: viewer
-- Returns the dead letter that a saga was requeued from, with its saga; the saga's own dead letter; and the saga that
-- was requeued from the latter.
-- index: primary keys of webhook_delivery_sagas and dead_letters, idx_dead_saga, uniq_saga_requeued_from; one row of
-- each
SELECT g.requeued_from, (SELECT d.saga_id FROM dead_letters d WHERE d.id = g.requeued_from) AS made_from_saga,
    (SELECT d.id FROM dead_letters d INDEXED BY idx_dead_saga WHERE d.saga_id = g.id LIMIT 1) AS letter_id,
    (SELECT again.id FROM dead_letters d INDEXED BY idx_dead_saga
        CROSS JOIN webhook_delivery_sagas again INDEXED BY uniq_saga_requeued_from ON again.requeued_from = d.id
        WHERE d.saga_id = g.id LIMIT 1) AS requeued_as
FROM webhook_delivery_sagas g WHERE g.id = ?1
