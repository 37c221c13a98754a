-- role: viewer
-- Returns the payload of a dead letter.
-- index: primary key of dead_letters
SELECT payload_snapshot FROM dead_letters WHERE id = ?1
