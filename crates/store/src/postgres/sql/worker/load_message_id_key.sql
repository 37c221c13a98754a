-- role: job_worker
-- Returns the key from which message ids are derived.
-- index: message_id_key_pkey.
SELECT k.key, k.plain_up_to FROM posthaste.message_id_key k WHERE k.id = 1
