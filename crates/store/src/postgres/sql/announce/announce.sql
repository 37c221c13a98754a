-- role: any; NOTIFY asks for no right.
-- Tells every process that listens which stages have something to do.
-- A statement, and so a transaction, of its own: a commit with a NOTIFY in it takes a lock on the whole database. A
-- word that a crash takes away is no loss, so nobody waits for the disk (read once, in the subselect).
SELECT pg_notify('posthaste', said.stage)
FROM unnest($1::text[]) AS said (stage)
WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
