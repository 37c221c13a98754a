-- role: dead_letter_operator
-- Creates a saga from a dead letter. Inserting into the view runs its trigger with the rights of the owner, which can
-- only create a new saga.
-- index: primary key of dead_letters; uniq_saga_requeued_from for the conflict
INSERT INTO requeue (dead_letter_id, requeued_at) VALUES (?1, ?2)
