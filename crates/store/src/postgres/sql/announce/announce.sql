-- role: any; NOTIFY needs no privilege.
-- Sends one notification per stage that has work to every listening process.
-- Runs in its own transaction, because a commit with a NOTIFY takes a lock on the whole database. The commit is not
-- flushed: work whose wake-up is lost in a crash is found by polling.
SELECT pg_notify('posthaste', said.message)
FROM unnest($1::text[]) AS said (message)
