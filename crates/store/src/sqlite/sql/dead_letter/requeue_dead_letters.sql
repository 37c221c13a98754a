-- role: dead_letter_operator
-- Creates a saga from a dead letter. The view takes the place of a function of the owner: inserting into it can only
-- create a new saga.
-- index: primary key of dead_letters; uniq_saga_requeued_from for the conflict
INSERT INTO requeue (dead_letter_id, requeued_at) VALUES (?1, ?2)
