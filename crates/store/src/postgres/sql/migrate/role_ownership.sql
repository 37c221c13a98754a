-- role: the migrating login, and the administrator who runs the output of `posthaste migrate --print-roles`
-- Decides for each role name in $1 whether a migration creates the role, keeps it, adopts it (writes its comment) or
-- refuses it. $2: whether roles of another database are accepted. The comment `posthaste <database>` names the database
-- that a role belongs to. A role is adopted if it already has rights in the schema of this database and either the
-- schema has no comment (version 0.1 wrote neither comment) or the database in the role's comment no longer exists (it
-- was renamed).
SELECT wanted.name,
    found.comment,
    usage.is_here,
    CASE
        WHEN found.oid IS NULL THEN 'create'
        WHEN found.comment = 'posthaste ' || current_database() THEN 'keep'
        WHEN starts_with(found.comment, 'posthaste ') AND $2::boolean THEN 'keep'
        WHEN starts_with(found.comment, 'posthaste ') AND usage.is_here AND home.oid IS NULL THEN 'adopt'
        WHEN starts_with(found.comment, 'posthaste ') THEN 'refuse'
        WHEN usage.is_here AND schema.comment IS NULL THEN 'adopt'
        ELSE 'refuse'
    END AS decision
FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS wanted (name, place)
LEFT JOIN LATERAL (
    SELECT role.oid, pg_catalog.shobj_description(role.oid, 'pg_authid') AS comment
    FROM pg_catalog.pg_roles AS role WHERE role.rolname = wanted.name
) AS found ON true
LEFT JOIN pg_catalog.pg_database AS home ON 'posthaste ' || home.datname = found.comment
LEFT JOIN LATERAL (
    SELECT pg_catalog.obj_description(namespace.oid, 'pg_namespace') AS comment
    FROM pg_catalog.pg_namespace AS namespace WHERE namespace.nspname = 'posthaste'
) AS schema ON true
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_namespace AS namespace, pg_catalog.aclexplode(namespace.nspacl) AS entry
        WHERE namespace.nspname = 'posthaste' AND entry.grantee = found.oid
    ) AS is_here
) AS usage
ORDER BY wanted.place
