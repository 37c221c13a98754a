//! Moves a database to roles with another prefix. Roles that only this database uses are renamed, which keeps their
//! rights and members. Roles that another database uses stay; this database gets new ones.

use super::{MigrateOptions, RoleSource, comment_statement, execute_or_roll_back, ownership, record};
use crate::RolePrefix;
use crate::grants::DbRole;
use crate::postgres::migrate::{server_message, store_error};
use posthaste_core::ports::{StoreError, StoreResult};
use record::RoleRecord;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};

/// Checks that there are roles to rename.
pub(super) async fn check(client: &Client, options: &MigrateOptions) -> StoreResult<()> {
    let record = record::read(client).await.map_err(store_error)?;
    if record == Some(RoleRecord::None) || options.roles == RoleSource::None {
        return Err(StoreError::Unusable {
            what: "--rename-roles needs a database with roles: run `posthaste migrate --roles create` or \
                   `--roles existing` instead"
                .to_owned(),
        });
    }
    Ok(())
}

/// Renames the roles that belong to this database and have no rights elsewhere, in one transaction. Skips roles whose
/// new name is in use, for example because an interrupted call has renamed them.
pub(super) async fn rename_own(client: &Client, from: &RolePrefix, to: &RolePrefix) -> StoreResult<()> {
    let (old_names, new_names) = (from.roles(&DbRole::ALL), to.roles(&DbRole::ALL));
    let old_states = ownership(client, &old_names, false).await?;
    let new_states = ownership(client, &new_names, false).await?;
    let sql = include_str!("../sql/migrate/roles_used_elsewhere.sql");
    let rows = client.query(sql, &[&old_names]).await.map_err(store_error)?;
    let used_elsewhere: Vec<String> =
        rows.iter().map(|row| row.try_get("name")).collect::<Result<_, Error>>().map_err(store_error)?;
    let mut statements = Vec::new();
    for (old, new) in old_states.iter().zip(&new_states) {
        if old.exists() && old.is_own() && !new.exists() && !used_elsewhere.contains(&old.name) {
            statements.push(format!("ALTER ROLE {} RENAME TO {}", old.name, new.name));
            statements.push(comment_statement(client, &new.name).await?);
        }
    }
    if statements.is_empty() {
        return Ok(());
    }
    let sql = format!("BEGIN;\n{};\nCOMMIT;", statements.join(";\n"));
    execute_or_roll_back(client, &sql).await.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unusable {
            what: format!(
                "this login may not rename the roles with the prefix {from} ({}): on PostgreSQL 16 and newer it needs \
                 ADMIN OPTION on them; or let an administrator run the SQL that `posthaste migrate --print-roles` \
                 prints, then run `posthaste migrate --roles existing --rename-roles`",
                server_message(&error)
            ),
        },
        Some(_) | None => store_error(error),
    })
}

/// Returns the statements that give members of the old roles the same rights in this database through the new roles.
/// They are not run, because members of a shared role may belong to another installation.
pub(super) async fn lost_memberships(
    client: &Client,
    from: &RolePrefix,
    to: &RolePrefix,
) -> StoreResult<Vec<String>> {
    let sql = include_str!("../sql/migrate/lost_memberships.sql");
    let (old_names, new_names) = (from.roles(&DbRole::ALL), to.roles(&DbRole::ALL));
    let rows = client.query(sql, &[&old_names, &new_names]).await.map_err(store_error)?;
    let statement = |row: &Row| {
        let (role, member): (String, String) = (row.try_get("new_name")?, row.try_get("member")?);
        Ok::<_, Error>(format!("GRANT {role} TO {};", super::administrator::identifier(&member)))
    };
    rows.iter().map(statement).collect::<Result<_, _>>().map_err(store_error)
}
