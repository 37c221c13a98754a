//! Writes the SQL with which an administrator prepares a database, so that an ordinary login can migrate it.

use crate::RolePrefix;
use crate::grants::DbRole;
use std::fmt::Write as _;

const OWNERSHIP: &str = include_str!("../sql/migrate/role_ownership.sql");

/// The width of the lists of roles.
const LINE_BYTES_MAX: usize = 120;

/// A login and the roles that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRoles {
    pub login: String,
    pub roles: Vec<DbRole>,
}

/// The names in the SQL for an administrator. Formatting it returns the SQL, which is safe to run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdministratorSql {
    pub database: String,
    /// The login that migrates the database. It becomes a member of all roles.
    pub owner: String,
    /// Other logins, which connect with the rights of single roles.
    pub logins: Vec<LoginRoles>,
    pub prefix: RolePrefix,
    /// Whether roles of another database of the cluster are accepted.
    pub share_roles: bool,
}

impl std::fmt::Display for AdministratorSql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (database, owner) = (identifier(&self.database), identifier(&self.owner));
        let roles = wrapped(&self.prefix.roles(&DbRole::ALL), "    ");
        writeln!(
            f,
            "-- Prepares the PostgreSQL database {database} for Posthaste: the roles of its components, the login\n\
             -- {owner} that migrates it, and the right to connect. Run it as an administrator, connected to this\n\
             -- database. It can be run again. It sets no password: use ALTER ROLE … PASSWORD, or \\password in psql.\n\
             BEGIN;\n\
             -- Names resolve to PostgreSQL's own functions only, whatever the owner has created.\n\
             SET LOCAL search_path = pg_catalog, pg_temp;\n"
        )?;
        let logins = self.logins.iter().map(|login| login.login.as_str());
        f.write_str(&create_logins(&self.database, std::iter::once(self.owner.as_str()).chain(logins)))?;
        f.write_str(&create_roles(&self.prefix, self.share_roles))?;
        writeln!(f, "GRANT\n{roles}\nTO {owner};")?;
        for LoginRoles { login, roles } in &self.logins {
            writeln!(f, "GRANT {} TO {};", self.prefix.roles(roles).join(", "), identifier(login))?;
        }
        writeln!(
            f,
            "\n-- Only these logins and roles may connect. The owner creates the schema posthaste.\n\
             REVOKE CONNECT ON DATABASE {database} FROM PUBLIC;\n\
             GRANT CONNECT ON DATABASE {database} TO {owner},\n{roles};\n\
             GRANT CREATE ON DATABASE {database} TO {owner};\n"
        )?;
        f.write_str(&check_rights(&self.owner))?;
        writeln!(f, "COMMIT;")?;
        let viewer = self.prefix.role(DbRole::Viewer);
        writeln!(
            f,
            "\n-- Optional: lets `posthaste doctor` see transactions of other logins.\n\
             -- GRANT pg_read_all_stats TO {viewer};"
        )
    }
}

/// Returns a block that creates missing logins, after a check that it runs in the right database.
fn create_logins<'a>(database: &str, logins: impl Iterator<Item = &'a str>) -> String {
    let mut sql = format!(
        "DO $posthaste$ BEGIN\n    \
             IF current_database() <> {name} THEN\n        \
                 RAISE EXCEPTION 'connected to the database %, but this is for %', current_database(), {name};\n    \
             END IF;\n",
        name = literal(database)
    );
    for login in logins {
        let _ = write!(
            sql,
            "    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {}) THEN\n        \
                     CREATE ROLE {} LOGIN;\n    \
                 END IF;\n",
            literal(login),
            identifier(login)
        );
    }
    sql.push_str("END $posthaste$;\n\n");
    sql
}

/// Returns a block that creates missing roles and their comments, and fails if a role does not belong to the database.
fn create_roles(prefix: &RolePrefix, share_roles: bool) -> String {
    let names: Vec<String> = prefix.roles(&DbRole::ALL).iter().map(|name| literal(name)).collect();
    let names = wrapped(&names, "        ");
    let is_code = |line: &&str| !line.starts_with("--");
    let query = OWNERSHIP.lines().filter(is_code).map(|line| format!("    {line}\n")).collect::<String>();
    let query = query
        .replace("$1::text[]", &format!("ARRAY[\n{names}\n    ]::text[]"))
        .replace("$2::boolean", if share_roles { "true" } else { "false" });
    ROLES_BLOCK.replace("{query}", query.trim_end())
}

/// The block that creates the roles, around the statement that decides about each.
const ROLES_BLOCK: &str = "\
-- The comment of a role names its database. Roles of other databases are refused.
DO $posthaste$ DECLARE
    role_comment text := 'posthaste ' || current_database();
    found_role record;
BEGIN
    FOR found_role IN
{query}
    LOOP
        IF found_role.decision = 'refuse' THEN
            RAISE EXCEPTION 'the role % is not a role of this database, its comment is: %',
                found_role.name, coalesce(found_role.comment, 'none')
                USING HINT = 'Set POSTHASTE_ROLE_PREFIX. If the role was created for this database, run '
                    || format('COMMENT ON ROLE %I IS %L', found_role.name, role_comment);
        END IF;
        IF found_role.decision = 'create' THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', found_role.name);
        END IF;
        IF found_role.decision IN ('create', 'adopt') THEN
            EXECUTE format('COMMENT ON ROLE %I IS %L', found_role.name, role_comment);
        END IF;
    END LOOP;
END $posthaste$;

";

/// Returns a block that fails if the statements before it had no effect: PostgreSQL only warns if the current user may
/// not grant or revoke these rights.
fn check_rights(owner: &str) -> String {
    format!(
        "DO $posthaste$ BEGIN\n    \
             IF has_database_privilege('public', current_database(), 'CONNECT')\n        \
                 OR NOT has_database_privilege({owner}, current_database(), 'CREATE')\n    \
             THEN\n        \
                 RAISE EXCEPTION 'only the owner of the database or a superuser may set these rights';\n    \
             END IF;\n\
         END $posthaste$;\n",
        owner = literal(owner)
    )
}

/// Joins names with commas, in indented lines of up to [`LINE_BYTES_MAX`] unless a name is longer.
fn wrapped(names: &[String], indent: &str) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for name in names {
        if !line.is_empty() && indent.len() + line.len() + name.len() + 3 > LINE_BYTES_MAX {
            let _ = writeln!(text, "{indent}{line},");
            line.clear();
        }
        line.push_str(if line.is_empty() { "" } else { ", " });
        line.push_str(name);
    }
    text + indent + &line
}

/// Quotes a name in SQL.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text in SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let sql = AdministratorSql {
            database: "o'db".to_owned(),
            owner: "a\"b".to_owned(),
            logins: vec![LoginRoles {
                login: "reader".to_owned(),
                roles: vec![DbRole::Viewer, DbRole::KeyKeeper],
            }],
            prefix: RolePrefix::parse("ph_").unwrap(),
            share_roles: false,
        };
        let text = sql.to_string();
        for part in [
            "<> 'o''db' THEN",
            "CREATE ROLE \"a\"\"b\" LOGIN;",
            "GRANT ph_viewer, ph_key_keeper TO \"reader\";",
            "REVOKE CONNECT ON DATABASE \"o'db\" FROM PUBLIC;",
            "'ph_event_publisher'",
            "AND false THEN 'keep'",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= LINE_BYTES_MAX), "{text}");
        assert!(!text.contains("$1") && !text.contains("$2"), "{text}");
        assert!(AdministratorSql { share_roles: true, ..sql }.to_string().contains("AND true THEN 'keep'"));
    }
}
