-- role: viewer
-- Returns the id of the last of $2 audit rows below $1; no row if there are fewer.
-- index: operator_audit_pkey.
SELECT a.id
FROM (SELECT a.id FROM posthaste.operator_audit a WHERE a.id < $1::bigint ORDER BY a.id DESC LIMIT 10000) a
OFFSET (SELECT $2::bigint - 1) LIMIT 1
