//! Migrates a database to the schema of this version: first the [`database_roles`], then the tables and grants. An
//! advisory lock serializes the migrations of one database.

use crate::migration::{self, Applied, Migration, MigrationError, migrations};
use crate::postgres::conn::connect::Connector;
use crate::postgres::conn::error::{classify, connecting};
use crate::postgres::conn::monitor::ConnectionMonitor;
use crate::postgres::conn::pooling::{self, Need};
use crate::postgres::database_roles::{self, MigrateOptions};
use crate::postgres::lock_wait::{LockObserver, LockWait};
use crate::remote::Phase;
use posthaste_core::ports::{StoreError, StoreResult};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};

/// All PostgreSQL migrations, in order.
pub const MIGRATIONS: &[Migration] = migrations!();

const DOING: &str = "migrating the database";
/// Key of the advisory lock held during a migration: "posthast" in ASCII.
const LOCK_KEY: i64 = 0x706f_7374_6861_7374;
/// Maximum time to wait for the migration of another process. The advisory lock is polled, because waiting in the
/// server would hold a snapshot, for which CREATE INDEX CONCURRENTLY of the other process would wait in turn.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(600);
/// Interval between two attempts to acquire the advisory lock.
const LOCK_POLL_PAUSE: Duration = Duration::from_millis(50);
/// The statement that limits how long each statement of a migration waits for a lock, because all later statements on
/// the table queue behind it.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";
/// The statement that limits the waits of CREATE INDEX CONCURRENTLY. No other statement queues behind it, and it cannot
/// be repeated alone, because an interrupted build leaves an invalid index.
const CONCURRENT_LOCK_TIMEOUT: &str = "SET lock_timeout = '10min'";
/// Maximum number of attempts to run a statement.
const TRIES_MAX: u32 = 10;
/// Pause between two attempts to run a statement.
const TRY_PAUSE: Duration = Duration::from_millis(100);
/// Pause after a lock timeout, in which the statements that queued behind the migration run.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// The result of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrateReport {
    /// The versions that were applied, in order.
    pub applied: Vec<u32>,
    /// The schema version of the database after the migration.
    pub version: u32,
    /// Statements for an administrator, so that logins keep their rights. Only a change of the role prefix needs them.
    pub statements_to_run: Vec<String>,
}

/// Migrates the database to the schema and the grants of this version. `url` must connect to the server directly,
/// without a connection pooler, with a login that may create schemas and, depending on `options`, roles.
pub async fn migrate(url: &str, options: &MigrateOptions) -> StoreResult<MigrateReport> {
    migrate_with(url, options, MIGRATIONS).await
}

/// Migrates the database with the given list of migrations. See [`migrate`].
pub async fn migrate_with(
    url: &str,
    options: &MigrateOptions,
    migrations: &[Migration],
) -> StoreResult<MigrateReport> {
    let monitor = ConnectionMonitor::default();
    let connector = Connector::new(url, "posthaste migrate", &monitor)?.with_password(&options.password)?;
    let checked = pooling::check(&connector, Need::Migration).await;
    checked.map_err(|fault| fault.into_error(DOING, true))?;
    let (client, connection) =
        connector.connect(None).await.map_err(|error| connecting(error).into_error(DOING, true))?;
    let observer = LockObserver { connector };
    let (report, _) =
        futures_util::future::join(run(client, &observer, options, migrations), connection).await;
    report
}

/// Creates or checks the roles, runs the missing migrations and sets the rights. Dropping the client at the end closes
/// the connection and releases the advisory lock.
async fn run(
    client: Client,
    observer: &LockObserver,
    options: &MigrateOptions,
    migrations: &[Migration],
) -> StoreResult<MigrateReport> {
    acquire_lock(&client).await?;
    execute(&client, LOCK_TIMEOUT).await?;
    execute_named(&client, observer, "creating the schema", include_str!("sql/migrate/create_schema.sql"))
        .await?;
    let applied = applied(&client).await.map_err(store_error)?;
    let planned = migration::plan(migrations, &applied).map_err(|error| refused(&error))?;
    let options = database_roles::resolve(&client, options).await?;
    let roles = database_roles::prepare(&client, &options).await?;
    let mut report = MigrateReport {
        applied: Vec::new(),
        version: migrations.last().map_or(0, |migration| migration.version),
        statements_to_run: Vec::new(),
    };
    for migration in planned {
        apply(&client, observer, migration).await?;
        report.applied.push(migration.version);
    }
    report.statements_to_run = roles.grant(&client, observer).await?;
    Ok(report)
}

async fn acquire_lock(client: &Client) -> StoreResult<()> {
    let mut waited = Duration::ZERO;
    loop {
        let row =
            client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK_KEY]).await.map_err(store_error)?;
        if row.try_get(0).map_err(store_error)? {
            return Ok(());
        }
        if waited >= LOCK_WAIT_MAX {
            return Err(StoreError::Busy {
                doing: DOING,
                source: format!("another process has been migrating it for {} s", waited.as_secs()).into(),
            });
        }
        tokio::time::sleep(LOCK_POLL_PAUSE).await;
        waited += LOCK_POLL_PAUSE;
    }
}

/// The query for the applied migrations. Every component role may run it.
pub(super) const APPLIED: &str = include_str!("sql/migrate/applied.sql");

async fn applied(client: &Client) -> Result<Vec<Applied>, Error> {
    client.query(APPLIED, &[]).await?.iter().map(applied_row).collect()
}

fn applied_row(row: &Row) -> Result<Applied, Error> {
    let version: i32 = row.try_get(0)?;
    Ok(Applied {
        version: u32::try_from(version).unwrap_or(u32::MAX),
        checksum: row.try_get(1)?,
        finished: row.try_get(2)?,
        compatible_with: row.try_get::<_, Option<i32>>(3)?.and_then(|version| u32::try_from(version).ok()),
    })
}

/// Checks that this version can use a database with the applied migrations in `rows`.
pub(super) fn check(rows: &[Row]) -> StoreResult<()> {
    let applied: Result<Vec<Applied>, Error> = rows.iter().map(applied_row).collect();
    let schema = migration::check(MIGRATIONS, &applied.map_err(store_error)?);
    schema.map(|schema| schema.log()).map_err(|error| refused(&error))
}

/// Returns the error for a database that was never migrated.
pub(super) fn never_migrated() -> StoreError {
    let needed = MIGRATIONS.last().map_or(0, |migration| migration.version);
    refused(&MigrationError::Behind { at: 0, needed })
}

async fn apply(client: &Client, observer: &LockObserver, migration: &Migration) -> StoreResult<()> {
    // Migration 4 changes the setting of the session.
    execute(client, LOCK_TIMEOUT).await?;
    let outcome = if migration.in_transaction() {
        let row = progress_statement(migration, "clock_timestamp()");
        execute_observed(client, observer, &format!("BEGIN;\n{}\n;{row}COMMIT;", migration.sql)).await
    } else {
        apply_steps(client, observer, migration).await
    };
    outcome.map_err(|StepError { error, wait }| {
        if is_lock_timeout(&error) {
            let kept = if migration.in_transaction() {
                "this migration changed nothing"
            } else {
                "its finished steps are kept"
            };
            let what = format!("migration {} ({})", migration.version, migration.name);
            return StoreError::Unusable { what: lock_message(&what, kept, wait.as_ref()) };
        }
        let what = format!(
            "migration {} ({}) failed: {}",
            migration.version,
            migration.name,
            server_message(&error)
        );
        let failed = store_error(error);
        if matches!(failed, StoreError::Refused { .. }) { StoreError::Unusable { what } } else { failed }
    })
}

/// Runs the steps of a migration one by one. Each step is idempotent. The migration is recorded as started before the
/// first step.
async fn apply_steps(
    client: &Client,
    observer: &LockObserver,
    migration: &Migration,
) -> Result<(), StepError> {
    execute_with_retries(client, &progress_statement(migration, "NULL")).await?;
    for step in migration.steps() {
        if step.contains("CONCURRENTLY") {
            execute_concurrent(client, observer, step).await?;
        } else {
            execute_observed(client, observer, step).await?;
        }
    }
    Ok(execute_with_retries(client, &progress_statement(migration, "clock_timestamp()")).await?)
}

/// The error of a statement of a migration.
struct StepError {
    error: Error,
    /// The lock that it waited for, if it was observed.
    wait: Option<LockWait>,
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self { error, wait: None }
    }
}

/// Runs a statement of a migration. If it cannot acquire a lock, the last attempt is observed.
async fn execute_observed(client: &Client, observer: &LockObserver, sql: &str) -> Result<(), StepError> {
    match execute_with_retries(client, sql).await {
        Err(error) if is_lock_timeout(&error) => client.batch_execute("ROLLBACK").await?,
        outcome => return Ok(outcome?),
    }
    let (outcome, wait) = observer.observe(client, client.batch_execute(sql)).await;
    outcome.map_err(|error| StepError { error, wait })
}

/// Runs CREATE INDEX CONCURRENTLY or DROP INDEX CONCURRENTLY, which wait for other transactions.
async fn execute_concurrent(client: &Client, observer: &LockObserver, sql: &str) -> Result<(), StepError> {
    client.batch_execute(CONCURRENT_LOCK_TIMEOUT).await?;
    let (outcome, wait) = observer.observe(client, client.batch_execute(sql)).await;
    outcome.map_err(|error| StepError { error, wait })?;
    Ok(client.batch_execute(LOCK_TIMEOUT).await?)
}

fn is_lock_timeout(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Returns the error message for a part of a migration that could not acquire a lock.
fn lock_message(what: &str, kept: &str, wait: Option<&LockWait>) -> String {
    let cause = wait.map_or_else(
        || {
            "other sessions hold a lock that it needs: find long transactions with SELECT pid, application_name, \
             state, xact_start FROM pg_stat_activity ORDER BY xact_start, and end them"
                .to_owned()
        },
        ToString::to_string,
    );
    format!(
        "{what} could not acquire a lock: {cause}; then run `posthaste migrate` again: {kept}, \
         and the next run continues with it"
    )
}

/// Returns the statement that records the progress of a migration. Name and checksum need no escaping, because they
/// contain no quotes.
fn progress_statement(migration: &Migration, finished_at: &str) -> String {
    format!(
        "INSERT INTO posthaste.schema_migrations \
             (version, name, checksum, started_at, finished_at, compatible_with) \
         VALUES ({}, '{}', '{}', clock_timestamp(), {finished_at}, {}) \
         ON CONFLICT (version) DO UPDATE SET finished_at = excluded.finished_at;",
        migration.version,
        migration.name,
        migration.checksum(),
        migration.compatible_with().map_or_else(|| "NULL".to_owned(), |version| version.to_string())
    )
}

/// Runs a statement. Retries it after a lock timeout, a deadlock, or a concurrent update of a shared catalog row by the
/// migration of another database.
pub(super) async fn execute_with_retries(client: &Client, sql: &str) -> Result<(), Error> {
    for _ in 1..TRIES_MAX {
        match client.batch_execute(sql).await {
            Err(error) if is_transient(&error) => {
                client.batch_execute("ROLLBACK").await?;
                tokio::time::sleep(if is_lock_timeout(&error) { LOCK_PAUSE } else { TRY_PAUSE }).await;
            }
            outcome => return outcome,
        }
    }
    client.batch_execute(sql).await
}

fn is_transient(error: &Error) -> bool {
    let Some(db) = error.as_db_error() else {
        return false;
    };
    [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(db.code())
        || (*db.code() == SqlState::INTERNAL_ERROR && db.message().contains("concurrently"))
}

async fn execute(client: &Client, sql: &str) -> StoreResult<()> {
    client.batch_execute(sql).await.map_err(store_error)
}

/// Runs a part of the migration that is not a numbered one. `what` describes it for messages.
pub(super) async fn execute_named(
    client: &Client,
    observer: &LockObserver,
    what: &str,
    sql: &str,
) -> StoreResult<()> {
    execute_observed(client, observer, sql).await.map_err(|StepError { error, wait }| {
        if is_lock_timeout(&error) {
            return StoreError::Unusable { what: lock_message(what, "it changed nothing", wait.as_ref()) };
        }
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            let why = format!("this login may not do it: {}", server_message(&error));
            return StoreError::Unusable { what: format!("{what} failed: {why}") };
        }
        store_error(error)
    })
}

pub(super) fn server_message(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
}

/// Converts a driver error. Migrating is idempotent, so a call whose connection is lost counts as not done.
pub(super) fn store_error(error: Error) -> StoreError {
    classify(error, Phase::BeforeCommit).into_error(DOING, true)
}

fn refused(error: &MigrationError) -> StoreError {
    StoreError::Unusable { what: error.to_string() }
}
