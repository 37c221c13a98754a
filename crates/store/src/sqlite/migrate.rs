//! Migrates a database file to the schema of this version, while holding the lock on the database.

use std::path::Path;
use std::time::{Duration, SystemTime};

use posthaste_core::Timestamp;
use posthaste_core::ports::{StoreError, StoreResult};
use rusqlite::{Connection, params};

use crate::migration::{self, Applied, Migration, migrations};
use crate::sqlite::conn::connection::{self, APPLICATION_ID, FileState, refused};
use crate::sqlite::conn::lock::{FileLock, unusable};

/// All SQLite migrations, in order.
pub const MIGRATIONS: &[Migration] = migrations!();

/// Maximum time that a migration waits for another process to release the lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// Page size in bytes, fixed when the file is created. In batches of 500, a delivery took 25 µs of writer time with 4
/// KiB, 26 µs with 8 KiB and 31 µs with 16 KiB; in batches of 32, it took 49, 54 and 65 µs. Each statement journals the
/// pages that it changes.
const PAGE_BYTES: u32 = 4_096;

/// Applies the missing migrations and returns their versions.
pub fn migrate(path: &Path) -> StoreResult<Vec<u32>> {
    migrate_with(path, MIGRATIONS)
}

/// Applies the missing migrations of the given list. See [`migrate`].
pub fn migrate_with(path: &Path, migrations: &[Migration]) -> StoreResult<Vec<u32>> {
    connection::make_folder(path)?;
    let _lock = FileLock::take(path, PATIENCE)?;
    let mut connection = connection::open_new(path, PAGE_BYTES)?;
    prepare(&mut connection).map_err(|error| refused(path, &error))?;
    let applied = applied(&connection).map_err(|error| refused(path, &error))?;
    let missing =
        migration::plan(migrations, &applied).map_err(|error| unusable(path, &error.to_string()))?;
    let mut versions = Vec::with_capacity(missing.len());
    for migration in missing {
        apply(&mut connection, migration).map_err(|error| {
            let at = format!("migration {} ({}) failed: {error}", migration.version, migration.name);
            unusable(path, &at)
        })?;
        versions.push(migration.version);
    }
    Ok(versions)
}

/// Checks that this version can use the schema of an open database.
pub(super) fn check(path: &Path, connection: &Connection, state: FileState) -> StoreResult<()> {
    let applied = match state {
        FileState::Empty => Vec::new(),
        FileState::Ours => applied(connection).map_err(|error| refused(path, &error))?,
    };
    migration::check(MIGRATIONS, &applied)
        .map(|schema| schema.log())
        .map_err(|error| StoreError::Unusable { what: format!("{}: {error}", path.display()) })
}

/// Sets the application id and creates the table `schema_migrations`, in one transaction.
fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
             version     INTEGER PRIMARY KEY,
             name        TEXT NOT NULL,
             checksum    TEXT NOT NULL,
             started_at  INTEGER NOT NULL,
             finished_at INTEGER
         ) STRICT",
    )?;
    // Version 0.1 created the table without this column.
    if !has_compatibility(&transaction)? {
        transaction.execute_batch("ALTER TABLE schema_migrations ADD COLUMN compatible_with INTEGER")?;
    }
    transaction.commit()
}

/// Returns whether `schema_migrations` has the column `compatible_with`.
fn has_compatibility(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info('schema_migrations') WHERE name = 'compatible_with'";
    connection.query_row(sql, [], |row| row.get::<_, u32>(0)).map(|columns| columns > 0)
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let compatible_with = if has_compatibility(connection)? { "compatible_with" } else { "NULL" };
    let mut rows = connection.prepare(&format!(
        "SELECT version, checksum, finished_at IS NOT NULL, {compatible_with} FROM schema_migrations ORDER BY version"
    ))?;
    rows.query_map([], |row| {
        Ok(Applied {
            version: row.get(0)?,
            checksum: row.get(1)?,
            finished: row.get(2)?,
            compatible_with: row.get(3)?,
        })
    })?
    .collect()
}

fn apply(connection: &mut Connection, migration: &Migration) -> rusqlite::Result<()> {
    if migration.in_transaction() {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration.sql)?;
        begin_row(&transaction, migration)?;
        end_row(&transaction, migration)?;
        return transaction.commit();
    }
    begin_row(connection, migration)?;
    for step in migration.steps() {
        connection.execute_batch(step)?;
    }
    end_row(connection, migration)
}

fn begin_row(connection: &Connection, migration: &Migration) -> rusqlite::Result<()> {
    connection
        .execute(
            "INSERT INTO schema_migrations (version, name, checksum, started_at, compatible_with)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (version) DO NOTHING",
            params![
                migration.version,
                migration.name,
                migration.checksum(),
                system_now().micros(),
                migration.compatible_with()
            ],
        )
        .map(drop)
}

fn end_row(connection: &Connection, migration: &Migration) -> rusqlite::Result<()> {
    connection
        .execute(
            "UPDATE schema_migrations SET finished_at = ?2 WHERE version = ?1",
            params![migration.version, system_now().micros()],
        )
        .map(drop)
}

/// Returns the current time of the system clock.
pub(super) fn system_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(0).after(since_epoch)
}
