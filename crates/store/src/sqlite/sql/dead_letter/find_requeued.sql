-- role: dead_letter_operator
-- Returns the saga that was requeued from a dead letter, if any, and whether its subscription was deleted.
-- index: primary keys of dead_letters and subscriptions, uniq_saga_requeued_from
SELECT saga_id, undeliverable FROM requeue WHERE dead_letter_id = ?1
