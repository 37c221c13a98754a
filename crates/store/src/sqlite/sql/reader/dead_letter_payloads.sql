-- role: viewer
-- index: dead_letters' key
SELECT payload_snapshot FROM dead_letters WHERE id = ?1
