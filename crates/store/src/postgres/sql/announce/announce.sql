-- role: any; NOTIFY needs no privilege.
-- Notifies every process that listens of the stages that have work, one message each.
-- A transaction of its own: a commit with a NOTIFY in it takes a lock on the whole database. A wake-up that a crash
-- loses is found by polling, so the commit is not flushed.
SELECT pg_notify('posthaste', said.message)
FROM unnest($1::text[]) AS said (message)
