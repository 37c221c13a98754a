-- role: dead_letter_operator
-- Resumes the lane. Inserting into the view runs its trigger with the rights of the owner.
-- index: primary key of outbox_lane, in the trigger of the view; there is one row
INSERT INTO resume_lane (resumed_at) VALUES (?1)
