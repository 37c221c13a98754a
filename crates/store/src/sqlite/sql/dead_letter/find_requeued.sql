-- role: dead_letter_operator
-- index: dead_letters' key, uniq_saga_requeued_from, subscriptions' key
SELECT saga_id, undeliverable FROM requeue WHERE dead_letter_id = ?1
