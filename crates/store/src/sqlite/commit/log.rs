//! Keeps the write-ahead log next to the database short. The writer calls it after every group.
//!
//! A reader that keeps a snapshot open holds on to the log from its snapshot on: nothing behind it can be copied into
//! the database, and the log grows until the reader ends. The writer waits for readers in one attempt only. After that it
//! probes without waiting, and waits again, for a moment, when the reader that was in the way has ended.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::ports::WriteAheadLog;

use crate::LogObserver;
use crate::sqlite::conn::connection::BUSY_TIMEOUT;
use crate::sqlite::conn::session::Guarded;

/// How long one try to empty the log waits for readers.
const TRY_WAIT: Duration = Duration::from_millis(20);
/// Tries of an attempt. Readers that overlap for moments are gone after the second; the rest is for a busy machine.
const TRIES_MAX: u32 = 25;
/// Tries of an attempt after one has failed and another reader is in the way now.
const TRIES_AFTER_PROBE: u32 = 3;
/// Time between two probes while a reader is in the way, unless the log grows by a quarter of its bound before.
const PROBE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    bytes_max: u64,
    /// The size from which on it is emptied; more than the bound after an attempt that a reader prevented.
    empty_from: u64,
    blocked: Option<Blocked>,
    /// Attempts that waited for readers.
    waits: u64,
    state: Arc<LogState>,
    observer: LogObserver,
}

/// After an attempt that a reader prevented.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    /// Frames of the log that could be copied. While this does not change, the same reader is in the way.
    frames_copied: i64,
    probed_at: Instant,
}

/// What the writer last saw, for operators.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    bytes: AtomicU64,
    blocked_since: Mutex<Option<Instant>>,
}

impl LogState {
    pub(crate) fn seen(&self) -> WriteAheadLog {
        let since = *self.blocked_since.lock().unwrap_or_else(PoisonError::into_inner);
        let blocked_for = since.map(|since| since.elapsed());
        WriteAheadLog { bytes: self.bytes.load(Ordering::Relaxed), blocked_for }
    }

    fn set(&self, bytes: u64, is_blocked: bool) {
        self.bytes.store(bytes, Ordering::Relaxed);
        let mut since = self.blocked_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if is_blocked { since.or_else(|| Some(Instant::now())) } else { None };
    }
}

impl Log {
    pub(crate) fn new(database: &Path, bytes_max: u64, observer: LogObserver) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-wal");
        let (path, state) = (PathBuf::from(name), Arc::default());
        Self { path, bytes_max, empty_from: bytes_max, blocked: None, waits: 0, state, observer }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn state(&self) -> Arc<LogState> {
        Arc::clone(&self.state)
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Empties a log that has grown past its bound. The automatic checkpoint copies pages, but starts the log over only
    /// in a moment without readers, which under constant reading never comes.
    pub(crate) fn keep_short(&mut self, guarded: &Guarded) {
        let mut bytes = self.bytes();
        let probes = self.blocked.is_some_and(|blocked| blocked.probed_at.elapsed() >= PROBE_EVERY);
        if bytes >= self.empty_from || probes {
            self.empty(guarded, bytes);
            bytes = self.bytes();
        }
        self.state.set(bytes, self.blocked.is_some());
        self.observer.see(bytes, self.blocked.is_some());
    }

    fn empty(&mut self, guarded: &Guarded, bytes: u64) {
        match self.attempt(guarded) {
            Ok(None) => {
                if self.blocked.take().is_some() {
                    tracing::info!(bytes, "the reader has ended, write-ahead log emptied");
                }
                self.empty_from = self.bytes_max;
            }
            Ok(Some(frames_copied)) => {
                let blocked = Blocked { frames_copied, probed_at: Instant::now() };
                if self.blocked.replace(blocked).is_none() {
                    tracing::warn!(
                        bytes,
                        "a reader keeps the write-ahead log from being emptied, it will grow"
                    );
                }
                self.empty_from = bytes.saturating_add(self.bytes_max / 4);
            }
            Err(error) => tracing::warn!(%error, bytes, "the log could not be emptied"),
        }
    }

    /// Returns `None` if the log was emptied, else the number of frames that could be copied.
    fn attempt(&mut self, guarded: &Guarded) -> rusqlite::Result<Option<i64>> {
        let tries = match self.blocked {
            None => TRIES_MAX,
            Some(blocked) => {
                let frames_copied = copy_frames(guarded)?;
                if frames_copied == blocked.frames_copied {
                    return Ok(Some(frames_copied));
                }
                TRIES_AFTER_PROBE
            }
        };
        self.waits += 1;
        if checkpoint_with(guarded, tries)? { Ok(None) } else { copy_frames(guarded).map(Some) }
    }
}

/// Copies all of the log into the database and cuts it off. Returns whether readers let it.
pub(crate) fn checkpoint(guarded: &Guarded) -> rusqlite::Result<bool> {
    checkpoint_with(guarded, TRIES_MAX)
}

/// Waits in short tries. SQLite waits for the reader that it found in an old part of the log by waiting for that
/// reader's lock, and does not notice when newer readers, which it need not wait for, take the lock over one from the
/// other: with two that overlap for ever, one try of ten seconds was not enough, and the second of many short ones is.
fn checkpoint_with(guarded: &Guarded, tries: u32) -> rusqlite::Result<bool> {
    let connection = guarded.connection();
    connection.busy_timeout(TRY_WAIT)?;
    let mut emptied = Ok(false);
    for _ in 0..tries {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        emptied = connection.query_row(sql, [], |row| row.get(0).map(|busy: bool| !busy));
        if !matches!(emptied, Ok(false)) {
            break;
        }
    }
    connection.busy_timeout(BUSY_TIMEOUT)?;
    emptied
}

/// Copies as much of the log as readers allow, without waiting. Returns the number of frames copied so far.
fn copy_frames(guarded: &Guarded) -> rusqlite::Result<i64> {
    // PASSIVE never calls the busy handler.
    guarded.connection().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: u64 = 64 << 10;

    #[test]
    fn a_reader_that_keeps_a_snapshot_is_waited_for_once() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("test.db");
        let connection = rusqlite::Connection::open(&path).expect("a database");
        let tables = "PRAGMA journal_mode = wal; CREATE TABLE rows (id INTEGER PRIMARY KEY, filler BLOB)";
        connection.execute_batch(tables).expect("a table");
        let guarded = Guarded::new(connection).expect("a connection");
        let mut log = Log::new(&path, BYTES_MAX, LogObserver::default());
        let state = log.state();
        let write = |log: &mut Log| {
            guarded.owner("INSERT INTO rows (filler) VALUES (randomblob(8192))").expect("a row");
            log.keep_short(&guarded);
        };
        write(&mut log);
        let reader = rusqlite::Connection::open(&path).expect("a reader");
        let count = |reader: &rusqlite::Connection| -> i64 {
            reader.query_row("SELECT count(*) FROM rows", [], |row| row.get(0)).expect("a count")
        };
        reader.execute_batch("BEGIN").expect("a transaction");
        assert_eq!(count(&reader), 1);
        // More than a hundred quarters of the bound, each of which was worth a wait once.
        for _ in 0..200 {
            write(&mut log);
        }
        assert_eq!(count(&reader), 1, "the snapshot is kept");
        assert_eq!(log.waits, 1);
        let seen = state.seen();
        assert!(seen.bytes > 20 * BYTES_MAX && seen.blocked_for.is_some(), "{seen:?}");
        reader.execute_batch("COMMIT").expect("the end of the snapshot");
        // At most a quarter of the bound until the next probe.
        for _ in 0..4 {
            write(&mut log);
        }
        let seen = state.seen();
        assert!(seen.bytes < BYTES_MAX && seen.blocked_for.is_none(), "{seen:?}");
        assert_eq!(log.waits, 2);
    }
}
