-- role: the migrating login
-- Returns which of the roles in $1 have rights in another database of the cluster, or on another database.
SELECT role.rolname::text AS name
FROM pg_catalog.pg_roles AS role
WHERE role.rolname = ANY ($1::text[]) AND EXISTS (
    SELECT FROM pg_catalog.pg_shdepend AS dependency
    CROSS JOIN (
        SELECT own.oid FROM pg_catalog.pg_database AS own WHERE own.datname = current_database()
    ) AS here
    WHERE dependency.refclassid = 'pg_catalog.pg_authid'::regclass AND dependency.refobjid = role.oid
    AND (dependency.dbid NOT IN (0, here.oid)
        OR (dependency.classid = 'pg_catalog.pg_database'::regclass AND dependency.objid <> here.oid))
)
