//! Limits the size of the write-ahead log. The writer calls [`Log::keep_short`] after every group.
//!
//! A reader with an open snapshot prevents newer frames from being copied into the database, so the log grows until the
//! reader finishes. The writer waits for such a reader only once. After that, it probes without waiting, and waits
//! again, briefly, once that reader has finished.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::ports::WriteAheadLog;

use crate::LogObserver;
use crate::sqlite::conn::connection::BUSY_TIMEOUT;
use crate::sqlite::conn::session::Guarded;

/// Maximum time that one try to truncate the log waits for readers.
const TRY_WAIT: Duration = Duration::from_millis(20);
/// Maximum number of tries in an attempt. Two suffice for short, overlapping readers; the others are a reserve for a
/// busy machine.
const TRIES_MAX: u32 = 25;
/// Maximum number of tries in an attempt that follows a probe, after the reader that blocked the checkpoint has
/// finished.
const TRIES_AFTER_PROBE: u32 = 3;
/// Interval between probes while a reader blocks the checkpoint. The log is also probed when it has grown by a quarter
/// of its limit.
const PROBE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    bytes_max: u64,
    /// The size in bytes at which the log is truncated. Larger than `bytes_max` after a blocked attempt.
    empty_from: u64,
    blocked: Option<Blocked>,
    /// The number of attempts that waited for readers.
    waits: u64,
    state: Arc<LogState>,
    observer: LogObserver,
}

/// The state after a reader has blocked an attempt.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    /// The number of frames that could be copied. While it does not change, the same reader blocks the checkpoint.
    frames_copied: i64,
    probed_at: Instant,
}

/// The state of the log that the writer last observed, for display to operators.
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

    /// Truncates the log if it exceeds its limit. The automatic checkpoint copies pages, but restarts the log only
    /// while there is no reader, which never happens under constant reads.
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
                    tracing::info!(bytes, "reader finished, write-ahead log truncated");
                }
                self.empty_from = self.bytes_max;
            }
            Ok(Some(frames_copied)) => {
                let blocked = Blocked { frames_copied, probed_at: Instant::now() };
                if self.blocked.replace(blocked).is_none() {
                    tracing::warn!(
                        bytes,
                        "an open reader blocks the checkpoint, the write-ahead log will grow"
                    );
                }
                self.empty_from = bytes.saturating_add(self.bytes_max / 4);
            }
            Err(error) => tracing::warn!(%error, bytes, "checkpoint of the write-ahead log failed"),
        }
    }

    /// Tries to truncate the log. Returns `None` on success, otherwise the number of frames that could be copied.
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

/// Copies the whole log into the database and truncates it. Returns `false` if readers prevented that.
pub(crate) fn checkpoint(guarded: &Guarded) -> rusqlite::Result<bool> {
    checkpoint_with(guarded, TRIES_MAX)
}

/// Runs a checkpoint in several short tries. SQLite waits for the lock of the reader that it found in an old part of
/// the log, and does not notice when newer readers, which it need not wait for, take over that lock from each other.
/// With two readers that always overlap, one try of ten seconds failed, while the second of many short tries succeeds.
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
    fn open_snapshot_is_waited_for_once() {
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
        // This writes a quarter of the limit more than a hundred times, and each time could cause another wait.
        for _ in 0..200 {
            write(&mut log);
        }
        assert_eq!(count(&reader), 1, "the snapshot is kept");
        assert_eq!(log.waits, 1);
        let seen = state.seen();
        assert!(seen.bytes > 20 * BYTES_MAX && seen.blocked_for.is_some(), "{seen:?}");
        reader.execute_batch("COMMIT").expect("the end of the snapshot");
        // The next probe runs after at most a quarter of the limit.
        for _ in 0..4 {
            write(&mut log);
        }
        let seen = state.seen();
        assert!(seen.bytes < BYTES_MAX && seen.blocked_for.is_none(), "{seen:?}");
        assert_eq!(log.waits, 2);
    }
}
