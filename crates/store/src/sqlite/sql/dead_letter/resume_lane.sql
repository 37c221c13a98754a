-- role: dead_letter_operator
-- index: the lane's key, in the trigger of the view; there is one row
INSERT INTO resume_lane (resumed_at) VALUES (?1)
