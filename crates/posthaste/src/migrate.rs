//! `posthaste migrate`: creates or updates the schema of a database, and on PostgreSQL its roles. With `--print-roles`,
//! prints the SQL with which an administrator prepares the database instead.

use crate::database::{DatabaseUrl, ServerUrl};
use crate::settings::{self, DatabaseFlags, DatabaseSettings};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{
    self, AdministratorSql, LoginRoles, MigrateOptions, MigrateReport, RoleSource,
};
use posthaste_store::sqlite;
use serde_json::json;
use std::fmt::Write as _;

pub(crate) const HELP: &str = "\
Examples:
  posthaste migrate --database-url postgres://owner@db/posthaste
  posthaste migrate --print-roles > roles.sql
  posthaste migrate --roles existing";

#[derive(Debug, Args)]
pub(crate) struct MigrateFlags {
    /// PostgreSQL roles: create missing ones, which needs CREATEROLE; use existing ones, from the SQL of --print-roles;
    /// or none, so that one login does everything
    /// [default: create, or none for a database that was migrated with it]
    #[arg(long, value_enum, value_name = "SOURCE")]
    roles: Option<Roles>,
    /// Use roles that belong to another database of the cluster
    #[arg(long)]
    share_roles: bool,
    /// Move the database to roles with the prefix in POSTHASTE_ROLE_PREFIX
    #[arg(long)]
    rename_roles: bool,
    /// Print the SQL with which an administrator creates the roles and logins, and exit
    #[arg(long, conflicts_with_all = ["roles", "rename_roles", "json"])]
    print_roles: bool,
    #[command(flatten)]
    database: DatabaseFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Roles {
    Create,
    Existing,
    None,
}

/// Runs the command and returns what it prints.
pub(crate) fn run(flags: &MigrateFlags, json: bool) -> anyhow::Result<String> {
    let (settings, _) = settings::load(&flags.database.0, std::env::vars_os())?;
    let database = &settings.database;
    if flags.print_roles {
        return Ok(administrator_sql(database, flags.share_roles)?.to_string());
    }
    let url = database.direct_url();
    let report = match &url {
        DatabaseUrl::Sqlite(path) => {
            MigrateReport { applied: sqlite::migrate(path)?, version: 0, statements_to_run: Vec::new() }
        }
        DatabaseUrl::Postgres(url) => {
            let options = MigrateOptions {
                password: database.password.clone(),
                prefix: database.role_prefix.clone(),
                roles: match flags.roles {
                    None | Some(Roles::Create) => RoleSource::Create,
                    Some(Roles::Existing) => RoleSource::Existing,
                    Some(Roles::None) => RoleSource::None,
                },
                keeps_none: flags.roles.is_none(),
                share_roles: flags.share_roles,
                rename_roles: flags.rename_roles,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("starting the runtime")?.block_on(postgres::migrate(url.expose(), &options))?
        }
    };
    Ok(describe(&url, &report, json))
}

fn describe(url: &DatabaseUrl, report: &MigrateReport, json: bool) -> String {
    let MigrateReport { applied, statements_to_run, .. } = report;
    if json {
        let report =
            json!({"database": url.to_string(), "applied": applied, "statements_to_run": statements_to_run});
        return format!("{report}\n");
    }
    let mut text = match applied[..] {
        [] => format!("{url}: the schema is up to date\n"),
        [only] => format!("{url}: applied migration {only}; the schema is up to date\n"),
        [first, .., last] => {
            format!("{url}: applied migrations {first} to {last}; the schema is up to date\n")
        }
    };
    if !statements_to_run.is_empty() {
        let _ = writeln!(
            text,
            "The previous roles stay, because another database uses them or they could not be renamed. Logins of this \
             installation\nneed the new roles. Let an administrator run these statements for them:\n{}",
            statements_to_run.join("\n")
        );
    }
    text
}

/// Returns the SQL for an administrator. The owner and the logins are those in the URLs of the settings.
fn administrator_sql(database: &DatabaseSettings, share_roles: bool) -> anyhow::Result<AdministratorSql> {
    let DatabaseUrl::Postgres(url) = database.direct_url() else {
        anyhow::bail!(
            "--print-roles needs POSTHASTE_DATABASE_URL=postgres://<owner>@<host>/<database>: SQLite has no roles"
        );
    };
    let named = |url: &ServerUrl| {
        url.user_and_database().with_context(|| {
            format!("the URL {url} must have the form postgres://<user>@<host>/<database> for --print-roles")
        })
    };
    let (owner, name) = named(&url)?;
    let mut logins: Vec<LoginRoles> = Vec::new();
    let mut add = |login: String, role| match logins.iter_mut().find(|known| known.login == login) {
        Some(known) => known.roles.push(role),
        None => logins.push(LoginRoles { login, roles: vec![role] }),
    };
    for (role, url) in &database.logins {
        let (login, _) = named(url)?;
        if login == owner && database.direct.is_some() {
            anyhow::bail!(
                "the login {login} of POSTHASTE_DATABASE_URL_DIRECT would become the owner with all rights, but it is \
                 also the login of the role {}: use the URL of the owner, or leave POSTHASTE_DATABASE_URL_DIRECT out",
                role.name()
            );
        }
        if login != owner {
            add(login, *role);
        }
    }
    let prefix = database.role_prefix.clone();
    let roles = prefix.roles(&DbRole::ALL);
    for login in logins.iter().map(|login| &login.login).chain([&owner]) {
        if roles.contains(login) {
            anyhow::bail!(
                "the login {login} has the name of a role: choose another login or POSTHASTE_ROLE_PREFIX"
            );
        }
    }
    // They would end a comment or a block of the printed SQL.
    let is_unsuitable = |text: &&String| text.contains(char::is_control) || text.contains("$posthaste$");
    if let Some(text) = logins.iter().map(|login| &login.login).chain([&owner, &name]).find(is_unsuitable) {
        anyhow::bail!("the name {text:?} contains characters that --print-roles does not support");
    }
    Ok(AdministratorSql { database: name, owner, logins, prefix, share_roles })
}
