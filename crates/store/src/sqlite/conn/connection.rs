//! Opens and configures connections to the database file, for the writer, the readers and migrations. Errors say why a
//! file cannot be used. Never modifies a database of another program.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_core::ports::{StoreError, StoreResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::sqlite::conn::lock::unusable;
use crate::sqlite::conn::permissions;

/// The application id that identifies a Posthaste database: "POST" in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x504f_5354;

/// Maximum time that a connection waits for a lock. There is only one writer, so only a checkpoint can block a
/// connection, and only briefly.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of pages in the write-ahead log at which the writer runs a checkpoint. A page changed by many commits is
/// copied only once: averaged over many batches of 500, including checkpoints, a delivery took 35 µs of writer time
/// with 1,000 pages, 31 µs with 4,000, and no less with 16,000.
const CHECKPOINT_PAGES: u32 = 4_000;

/// Maximum size of the write-ahead log file after a checkpoint, in bytes.
const LOG_BYTES_KEPT: u32 = 64 << 20;

/// Page cache size of the writer, in KiB. After a B-tree is rebalanced, SQLite scans the whole cache at the next
/// commit: with 48 MiB, that was 6 % of writer time. With 16 MiB, one subscription was 1.03 to 1.13 times as fast, and
/// ten subscriptions 1.02 to 1.08 times, in alternating runs; the process uses 80 to 110 MB instead of 130 to 140. 4
/// and 8 MiB were no faster.
const WRITER_CACHE_KIB: i32 = 16_384;
/// Page cache size of each reader, in KiB.
const READER_CACHE_KIB: i32 = 16_384;

/// The content of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// A database with neither tables nor an application id.
    Empty,
    /// A Posthaste database.
    Ours,
}

/// Opens the file for a migration. Creates it first if it does not exist, because SQLite would create it with the
/// permissions that the umask leaves.
pub(crate) fn open_new(path: &Path, page_bytes: u32) -> StoreResult<Connection> {
    if !path.exists() {
        permissions::open_or_create(path)
            .map_err(|error| unusable(path, &format!("the file cannot be created: {error}")))?;
    }
    let (connection, _) = open(path, Some(page_bytes))?;
    Ok(connection)
}

/// Returns an error if the file does not exist. Only a migration creates it.
pub(crate) fn must_exist(path: &Path) -> StoreResult<()> {
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(unusable(path, "there is no database yet: run `posthaste migrate` first")),
        Err(error) => Err(unusable(path, &format!("the file cannot be accessed: {error}"))),
    }
}

/// Opens the writer's connection.
pub(crate) fn open_writer(path: &Path) -> StoreResult<(Connection, FileState)> {
    open(path, None)
}

fn open(path: &Path, page_bytes: Option<u32>) -> StoreResult<(Connection, FileState)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| refused(path, &error))?;
    let state = examine(path, &connection)?;
    if connection.is_readonly("main").map_err(|error| refused(path, &error))? {
        return Err(unusable(path, "the file is read-only, and Posthaste must write to it"));
    }
    set_up_writer(&connection, page_bytes.filter(|_| state == FileState::Empty))
        .map_err(|error| refused(path, &error))?;
    Ok((connection, state))
}

/// Opens a read-only connection.
pub(crate) fn open_reader(path: &Path) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| refused(path, &error))?;
    set_up_reader(&connection).map_err(|error| refused(path, &error))?;
    Ok(connection)
}

/// Counts the virtual machine steps of the connection in `steps`, if it is set.
pub(crate) fn count_steps(
    path: &Path,
    connection: &mut Connection,
    steps: Option<Arc<AtomicU64>>,
) -> StoreResult<()> {
    let Some(steps) = steps else { return Ok(()) };
    let count = move || {
        steps.fetch_add(1, Ordering::Relaxed);
        false
    };
    connection.progress_handler(1, Some(count)).map_err(|error| refused(path, &error))
}

/// Creates the parent folder of the file.
pub(crate) fn make_folder(path: &Path) -> StoreResult<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            permissions::create_folder(folder).map_err(|error| {
                unusable(path, &format!("its folder {} cannot be created: {error}", folder.display()))
            })
        }
        Some(_) | None => Ok(()),
    }
}

/// Determines whether the file is empty or a Posthaste database, without changing it. Returns an error for a database
/// of another program.
fn examine(path: &Path, connection: &Connection) -> StoreResult<FileState> {
    let read = || -> rusqlite::Result<(i32, i64)> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let objects = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, objects))
    };
    match read().map_err(|error| refused(path, &error))? {
        (APPLICATION_ID, _) => Ok(FileState::Ours),
        (0, 0) => Ok(FileState::Empty),
        (_, _) => Err(unusable(path, "this is a database of another program; choose another file")),
    }
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Query plans must not depend on bound values. Otherwise SQLite prepares a statement again whenever a bound value
    // that might affect the plan changes: 8 % of writer time in batches of 32.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "recursive_triggers", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)
}

fn set_up_writer(connection: &Connection, page_bytes: Option<u32>) -> rusqlite::Result<()> {
    set_up(connection)?;
    if let Some(bytes) = page_bytes {
        connection.pragma_update(None, "page_size", bytes)?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))
}

fn set_up_reader(connection: &Connection) -> rusqlite::Result<()> {
    set_up(connection)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    connection.pragma_update(None, "query_only", true)
}

/// Converts a SQLite error to the error for a file that cannot be used.
pub(crate) fn refused(path: &Path, error: &rusqlite::Error) -> StoreError {
    let reason = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "this file is not a database; choose another file".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => "the database is corrupt; restore a backup".to_owned(),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            format!("the file or its folder is read-only, and Posthaste must write to it ({error})")
        }
        Some(ErrorCode::CannotOpen) => format!("the file cannot be opened ({error})"),
        Some(ErrorCode::DiskFull) => "there is no space left on the disk".to_owned(),
        _ => error.to_string(),
    };
    unusable(path, &reason)
}
