-- role: the migrating login
-- Returns the members of the roles $1 that are not yet members of the roles $2 at the same places of the lists.
SELECT renamed.new_name, member.rolname::text AS member
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS renamed (old_name, new_name, place)
JOIN pg_catalog.pg_roles AS old_role ON old_role.rolname = renamed.old_name
JOIN pg_catalog.pg_roles AS new_role ON new_role.rolname = renamed.new_name
JOIN pg_catalog.pg_auth_members AS membership ON membership.roleid = old_role.oid
JOIN pg_catalog.pg_roles AS member ON member.oid = membership.member
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_auth_members AS kept
    WHERE kept.roleid = new_role.oid AND kept.member = membership.member
)
GROUP BY renamed.place, renamed.new_name, member.rolname
ORDER BY renamed.place, member.rolname
