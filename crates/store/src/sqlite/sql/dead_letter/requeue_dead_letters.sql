-- role: dead_letter_operator
-- index: dead_letters' key, uniq_saga_requeued_from for the conflict
-- The view stands for a function of the owner: all that a row written here can do is make a fresh saga.
INSERT INTO requeue (dead_letter_id, requeued_at) VALUES (?1, ?2)
