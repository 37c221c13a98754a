-- role: any login, which needs no rights for it
-- Returns the comment of the schema, which records for which roles the database was migrated. No row without a schema.
SELECT pg_catalog.obj_description(namespace.oid, 'pg_namespace') AS comment
FROM pg_catalog.pg_namespace AS namespace WHERE namespace.nspname = 'posthaste'
