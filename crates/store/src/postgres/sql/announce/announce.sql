-- role: any; NOTIFY asks for no right.
-- Notifies every process that listens of the stages that have work, one message each.
-- A statement, and so a transaction, of its own: a commit with a NOTIFY in it takes a lock on the whole database. A
-- word that a crash takes away is no loss, so nobody waits for the disk (read once, in the subselect).
SELECT pg_notify('posthaste', said.message)
FROM unnest($1::text[]) AS said (message)
WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
