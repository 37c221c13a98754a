//! Creates, checks and renames the database roles during a migration. Roles belong to the whole cluster, so each
//! carries a comment with its database (`sql/migrate/role_ownership.sql` decides what happens to existing roles), and
//! each database records its prefix ([`record`]). An administrator can prepare the roles instead ([`administrator`]).

mod administrator;
pub(crate) mod record;
mod rename;

pub use administrator::{AdministratorSql, LoginRoles};

use crate::RolePrefix;
use crate::grants::{self, DbRole};
use crate::postgres::conn::password::PasswordSource;
use crate::postgres::lock_wait::LockObserver;
use crate::postgres::migrate::{execute_named, execute_with_retries, server_message, store_error};
use posthaste_core::ports::{StoreError, StoreResult};
use record::RoleRecord;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// Where a migration gets the database roles from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RoleSource {
    /// The migration creates missing roles. The login needs CREATEROLE if a role is missing.
    #[default]
    Create,
    /// An administrator has created the roles. The migration only grants rights in its database.
    Existing,
    /// There are no roles: the login of the migration does everything.
    None,
}

/// The login of a migration, and what it does about database roles.
#[derive(Debug, Clone, Default)]
pub struct MigrateOptions {
    /// Where the password of the login comes from.
    pub password: PasswordSource,
    pub prefix: RolePrefix,
    pub roles: RoleSource,
    /// Whether a database that was migrated with [`RoleSource::None`] stays without roles, whatever `roles` is.
    pub keeps_none: bool,
    /// Whether to use roles that belong to another database of the cluster.
    pub share_roles: bool,
    /// Whether to move a database whose roles have another prefix to `prefix`.
    pub rename_roles: bool,
}

/// The roles of a database before and after a migration.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    options: &'a MigrateOptions,
    /// The prefix of other roles that have rights in this database. They lose these rights.
    replaced: Option<RolePrefix>,
}

/// Returns the options for a database, which may have been migrated without roles before.
pub(super) async fn resolve(client: &Client, options: &MigrateOptions) -> StoreResult<MigrateOptions> {
    let mut options = options.clone();
    if options.keeps_none && record::read(client).await.map_err(store_error)? == Some(RoleRecord::None) {
        options.roles = RoleSource::None;
    }
    Ok(options)
}

/// Creates or checks the roles. Changes no rights in the database yet.
pub(super) async fn prepare<'a>(client: &Client, options: &'a MigrateOptions) -> StoreResult<Prepared<'a>> {
    let previous = previous_prefix(client).await?;
    let replaced =
        previous.filter(|previous| options.roles == RoleSource::None || *previous != options.prefix);
    if options.rename_roles {
        rename::check(client, options).await?;
    }
    match (&replaced, options.roles) {
        (None, _) | (Some(_), RoleSource::None) => {}
        (Some(previous), RoleSource::Create | RoleSource::Existing) if !options.rename_roles => {
            return Err(record::mismatch(previous, &options.prefix));
        }
        (Some(previous), RoleSource::Create) => rename::rename_own(client, previous, &options.prefix).await?,
        (Some(_), RoleSource::Existing) => {}
    }
    match options.roles {
        RoleSource::Create => create(client, options).await?,
        RoleSource::Existing => check_existing(client, options).await?,
        RoleSource::None => {}
    }
    Ok(Prepared { options, replaced })
}

impl Prepared<'_> {
    /// Sets the rights in the database and records the roles, in one transaction. Returns the statements that an
    /// administrator has to run so that members of replaced roles keep their rights.
    pub(super) async fn grant(&self, client: &Client, observer: &LockObserver) -> StoreResult<Vec<String>> {
        let prefix = &self.options.prefix;
        let (rights, record) = match self.options.roles {
            RoleSource::Create | RoleSource::Existing => {
                (grants::postgres_grants(prefix), RoleRecord::Prefix(prefix.clone()))
            }
            RoleSource::None => (grants::postgres_revokes("PUBLIC"), RoleRecord::None),
        };
        let mut replaced_names = Vec::new();
        if let Some(replaced) = &self.replaced {
            let states = ownership(client, &replaced.roles(&DbRole::ALL), false).await?;
            replaced_names.extend(states.into_iter().filter(|role| role.exists()).map(|role| role.name));
        }
        let revokes = match replaced_names[..] {
            [] => String::new(),
            [..] => grants::postgres_revokes(&replaced_names.join(", ")),
        };
        let statements = format!("BEGIN;\n{rights}{revokes}{};\nCOMMIT;", record.statement());
        execute_named(client, observer, "granting the rights", &statements).await?;
        match (&self.replaced, self.options.roles) {
            (None, _) | (Some(_), RoleSource::None) => Ok(Vec::new()),
            (Some(replaced), RoleSource::Create | RoleSource::Existing) => {
                rename::lost_memberships(client, replaced, prefix).await
            }
        }
    }
}

/// Returns the prefix of the roles that have rights in the database: the recorded one, or none at all for a database
/// that version 0.1 migrated.
async fn previous_prefix(client: &Client) -> StoreResult<Option<RolePrefix>> {
    match record::read(client).await.map_err(store_error)? {
        Some(RoleRecord::Prefix(prefix)) => Ok(Some(prefix)),
        Some(RoleRecord::None) => Ok(None),
        None => {
            let bare = RolePrefix::default();
            let states = ownership(client, &bare.roles(&DbRole::ALL), false).await?;
            Ok(states.iter().any(|role| role.is_here).then_some(bare))
        }
    }
}

/// The state of a role in the cluster.
#[derive(Debug)]
struct RoleState {
    name: String,
    comment: Option<String>,
    /// Whether the role has rights in the schema of this database.
    is_here: bool,
    decision: String,
}

impl RoleState {
    fn exists(&self) -> bool {
        self.decision != "create"
    }

    /// Returns whether the role belongs to this database.
    fn is_own(&self) -> bool {
        ["keep", "adopt"].contains(&self.decision.as_str())
    }
}

/// Decides what happens to each role. `share` accepts roles of other databases.
async fn ownership(client: &Client, names: &[String], share: bool) -> StoreResult<Vec<RoleState>> {
    let sql = include_str!("sql/migrate/role_ownership.sql");
    let rows = client.query(sql, &[&names, &share]).await.map_err(store_error)?;
    let state = |row: &tokio_postgres::Row| {
        Ok::<_, Error>(RoleState {
            name: row.try_get("name")?,
            comment: row.try_get("comment")?,
            is_here: row.try_get("is_here")?,
            decision: row.try_get("decision")?,
        })
    };
    rows.iter().map(state).collect::<Result<_, _>>().map_err(store_error)
}

/// Creates missing roles, writes missing comments and makes the login a member of each role. Other databases may do the
/// same concurrently, so a role that turns out to exist is examined again.
async fn create(client: &Client, options: &MigrateOptions) -> StoreResult<()> {
    let names = options.prefix.roles(&DbRole::ALL);
    let all = ownership(client, &names, options.share_roles).await?;
    // Nothing is created if any role is refused.
    if let Some(refused) = all.iter().find(|role| role.decision == "refuse") {
        return Err(refusal(client, refused).await?);
    }
    for role in &all {
        let name = &role.name;
        let outcome = match role.decision.as_str() {
            "create" => {
                let comment = comment_statement(client, name).await?;
                let sql = format!("BEGIN;\nCREATE ROLE {name} NOLOGIN;\n{comment};\nCOMMIT;");
                execute_or_roll_back(client, &sql).await
            }
            "adopt" => execute_or_roll_back(client, &comment_statement(client, name).await?).await,
            _ => Ok(()),
        };
        match outcome {
            Err(error) if already_exists(&error) => {
                let now = ownership(client, std::slice::from_ref(name), options.share_roles).await?;
                if let Some(refused) = now.iter().find(|role| role.decision == "refuse") {
                    return Err(refusal(client, refused).await?);
                }
            }
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                return Err(may_not(name, &error));
            }
            outcome => outcome.map_err(store_error)?,
        }
        join_role(client, name).await?;
    }
    Ok(())
}

/// Returns the statement that writes the comment of a role.
async fn comment_statement(client: &Client, name: &str) -> StoreResult<String> {
    let row = client.query_one("SELECT current_database()::text", &[]).await.map_err(store_error)?;
    let database: String = row.try_get(0).map_err(store_error)?;
    Ok(format!("COMMENT ON ROLE {name} IS {}", administrator::literal(&format!("posthaste {database}"))))
}

/// Runs a transaction. Ends it if it fails.
async fn execute_or_roll_back(client: &Client, sql: &str) -> Result<(), Error> {
    let outcome = execute_with_retries(client, sql).await;
    if outcome.is_err() {
        client.batch_execute("ROLLBACK").await?;
    }
    outcome
}

fn may_not(name: &str, error: &Error) -> StoreError {
    StoreError::Unusable {
        what: format!(
            "this login may not create or comment the role {name} ({}): let an administrator run the SQL that \
             `posthaste migrate --print-roles` prints, then run `posthaste migrate --roles existing`; or give the \
             login CREATEROLE; or do without roles with --roles none",
            server_message(error)
        ),
    }
}

/// Returns the error for a role that exists and does not belong to this database.
async fn refusal(client: &Client, role: &RoleState) -> StoreResult<StoreError> {
    let name = &role.name;
    let prefix_hint = "set POSTHASTE_ROLE_PREFIX, for example to posthaste_ (and give --rename-roles if the database \
                       has been migrated before)";
    let what = match role.comment.as_deref().and_then(|comment| comment.strip_prefix("posthaste ")) {
        Some(other) => format!(
            "the role {name} belongs to the database {other:?} of this cluster: for separate rights, {prefix_hint}; \
             to share the roles and their members with {other:?}, give --share-roles"
        ),
        None => format!(
            "the role {name} exists in this cluster and was not created for this database: {prefix_hint}, or rename \
             the role; if it was created for this database, let an administrator run {}",
            comment_statement(client, name).await?
        ),
    };
    Ok(StoreError::Unusable { what })
}

/// Checks that an administrator has created all roles for this database.
async fn check_existing(client: &Client, options: &MigrateOptions) -> StoreResult<()> {
    let all = ownership(client, &options.prefix.roles(&DbRole::ALL), options.share_roles).await?;
    if let Some(refused) = all.iter().find(|role| role.decision == "refuse") {
        return Err(refusal(client, refused).await?);
    }
    let missing = all.iter().filter(|role| role.decision != "keep");
    let missing: Vec<&str> = missing.map(|role| role.name.as_str()).collect();
    if !missing.is_empty() {
        return Err(StoreError::Unusable {
            what: format!(
                "these roles do not exist or are not marked as roles of this database: {}; let an administrator run \
                 the SQL that `posthaste migrate --print-roles` prints, connected to this database",
                missing.join(", ")
            ),
        });
    }
    for role in &all {
        if !can_set_role(client, &role.name).await? {
            warn_of_membership(&role.name);
        }
    }
    Ok(())
}

fn already_exists(error: &Error) -> bool {
    [Some(&SqlState::DUPLICATE_OBJECT), Some(&SqlState::UNIQUE_VIOLATION)].contains(&error.code())
}

async fn can_set_role(client: &Client, name: &str) -> StoreResult<bool> {
    let row = client.query_one(include_str!("sql/migrate/can_set_role.sql"), &[&name]).await;
    row.and_then(|row| row.try_get(0)).map_err(store_error)
}

/// Makes the login a member of a role, unless it may already set it. Logs a warning if the login may not grant the role
/// to itself; then every role needs its own URL.
async fn join_role(client: &Client, name: &str) -> StoreResult<()> {
    if can_set_role(client, name).await? {
        return Ok(());
    }
    match execute_with_retries(client, &format!("GRANT {name} TO CURRENT_USER")).await {
        Err(error) if already_exists(&error) => Ok(()),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            warn_of_membership(name);
            Ok(())
        }
        outcome => outcome.map_err(store_error),
    }
}

fn warn_of_membership(name: &str) {
    tracing::warn!(
        role = name,
        "the migrating login is not a member of this role and cannot grant it to itself"
    );
}
