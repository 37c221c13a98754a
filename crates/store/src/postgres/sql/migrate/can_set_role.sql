-- role: the migrating login
-- Returns whether this login may execute SET ROLE for the role $1. Since PostgreSQL 16, a login that creates a role is
-- a member that may grant the role but not set it.
SELECT login.rolsuper OR pg_catalog.pg_has_role(
    current_user,
    $1::text::name,
    CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END
) AS can_set_role
FROM pg_catalog.pg_roles AS login WHERE login.rolname = current_user
