-- role: viewer
-- Returns the audit rows below $1 that match the filter, newest first, examining at most $6.
-- index: operator_audit_pkey.
-- planner: two limits.
SELECT a.id, a.created_at, a.key_id, a.key_name, a.client_address, a.action, a.object, a.before, a.after
FROM (
    SELECT a.* FROM (SELECT a.* FROM posthaste.operator_audit a WHERE a.id < $1::bigint ORDER BY a.id DESC LIMIT 10000)
        a
    LIMIT (SELECT $6::bigint)
) a
WHERE ($2::text IS NULL OR a.action = $2::text)
    AND ($3::timestamptz IS NULL OR a.created_at >= $3::timestamptz)
    AND ($4::timestamptz IS NULL OR a.created_at < $4::timestamptz)
LIMIT $5::bigint
