-- role: viewer
-- Returns the next ?2 audit rows below ?1, newest first. The caller applies the filter, because it must know the last
-- row examined.
-- index: primary key of operator_audit, backwards
SELECT id, created_at, key_id, key_name, client_address, action, object, before, after
FROM operator_audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2
