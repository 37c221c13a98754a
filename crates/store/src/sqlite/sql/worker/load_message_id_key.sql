-- role: job_worker
-- Returns the key from which message ids are derived.
-- index: primary key of message_id_key
SELECT key, plain_up_to FROM message_id_key WHERE id = 1
