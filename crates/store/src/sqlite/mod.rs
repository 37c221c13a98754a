//! The SQLite store: one file, used by one process. [`commit`] commits and flushes in groups; [`conn`] opens
//! connections and enforces the rights of each role; [`roles`] has one module per role.

mod commit;
mod conn;
mod migrate;
mod roles;
mod stores;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use posthaste_core::ports::StoreResult;

pub use migrate::{MIGRATIONS, migrate, migrate_with};
pub use roles::cleaner::SqliteCleaner;
pub use roles::dead_letter::SqliteDeadLetters;
pub use roles::ingest::SqliteIngest;
pub use roles::insight::SqliteInsight;
pub use roles::key::SqliteKeys;
pub use roles::orchestrator::SqliteOrchestrator;
pub use roles::outbox_intake::SqliteOutboxIntake;
pub use roles::outbox_worker::SqliteOutboxWorker;
pub use roles::presence::SqlitePresence;
pub use roles::reader::SqliteReader;
pub use roles::router::SqliteRouter;
pub use roles::subscriptions::SqliteSubscriptions;
pub use roles::worker::SqliteWorker;

use crate::grants::DbRole;
use crate::{LogObserver, Observer};
use commit::log::{Log, LogState};
use commit::task::{Durability, Queue};
use conn::error::Answer;
use conn::lock::FileLock;
use conn::session::{Guarded, Session};

/// Options for a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub path: PathBuf,
    /// The number of reader threads, in addition to the writer.
    pub readers: usize,
    /// The size of the write-ahead log, in bytes, at which the writer truncates it.
    pub log_bytes_max: u64,
    /// The observer that receives the duration of each call, including its time in the queue.
    pub observer: Observer,
    pub log_observer: LogObserver,
    /// The counter of virtual machine steps of all connections, used to measure the cost of calls.
    pub steps: Option<Arc<AtomicU64>>,
}

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (log_bytes_max, observer) = (commit::writer::LOG_BYTES_MAX, Observer::default());
        let log_observer = LogObserver::default();
        Self { path: path.into(), readers: 2, log_bytes_max, observer, log_observer, steps: None }
    }
}

/// An open database file. Clones share it. Dropping the last clone finishes the queued work, truncates the log and
/// releases the file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    threads: Arc<Threads>,
}

#[derive(Debug)]
struct Threads {
    /// The queues of all threads. `None` only during shutdown.
    queues: Option<Queues>,
    /// The threads, the writer last.
    handles: Vec<JoinHandle<()>>,
    observer: Observer,
    log: Arc<LogState>,
    path: PathBuf,
    /// The lock on the database, released after the threads have ended.
    _lock: FileLock,
}

#[derive(Debug)]
struct Queues {
    writer: Queue,
    readers: Queue,
    /// The queue of the reader that serves only API key lookups. Every API call starts with a key lookup, which must
    /// not wait for long lists of other callers.
    keys: Queue,
}

impl Drop for Threads {
    /// Ends the readers before the writer: the last connection truncates and removes the log when it is closed, and two
    /// connections that are closed at the same time may both leave it to the other.
    fn drop(&mut self) {
        let writer_queue = self.queues.take().map(|queues| queues.writer);
        let writer = self.handles.pop();
        self.handles.drain(..).for_each(end);
        drop(writer_queue);
        writer.into_iter().for_each(end);
    }
}

/// Waits for a thread. The last clone of the store may have been dropped by a task on this very thread.
fn end(handle: JoinHandle<()>) {
    if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
        tracing::error!("a database thread panicked");
    }
}

impl SqliteStore {
    /// Opens a migrated database. Returns an error if another process has it open, or if its schema is
    /// neither that of this version nor a newer one that is marked as compatible with it.
    pub fn open(options: &SqliteOptions) -> StoreResult<Self> {
        let path = options.path.as_path();
        conn::connection::must_exist(path)?;
        let lock = FileLock::take(path, Duration::ZERO)?;
        let (writer, state) = conn::connection::open_writer(path)?;
        migrate::check(path, &writer, state)?;
        let guard = |mut connection| {
            conn::connection::count_steps(path, &mut connection, options.steps.clone())?;
            Guarded::new(connection).map_err(|fault| fault.during("opening the database"))
        };
        let connections: Vec<_> = (0..options.readers.max(1))
            .map(|_| conn::connection::open_reader(path).and_then(guard))
            .collect::<StoreResult<_>>()?;
        let (reader_queue, mut handles) = conn::readers::start("sqlite-reader", connections)?;
        let key_connection = conn::connection::open_reader(path).and_then(guard)?;
        let (key_queue, key_handles) = conn::readers::start("sqlite-keys", vec![key_connection])?;
        handles.extend(key_handles);
        let log = Log::new(path, options.log_bytes_max, options.log_observer.clone());
        let log_state = log.state();
        let (writer_queue, handle) = commit::writer::start(guard(writer)?, log)?;
        handles.push(handle);
        let queues = Queues { writer: writer_queue, readers: reader_queue, keys: key_queue };
        let observer = options.observer.clone();
        warn_of_exposed_files(path);
        let path = path.to_owned();
        let threads = Threads { queues: Some(queues), handles, observer, log: log_state, path, _lock: lock };
        Ok(Self { threads: Arc::new(threads) })
    }

    /// Runs work in a write transaction, which it may share with other work. Returns after the commit is flushed.
    async fn write<T, F>(&self, role: DbRole, doing: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
    {
        self.write_as(Durability::Flushed, role, doing, work).await
    }

    /// Runs work in a write transaction with the given durability. See [`SqliteStore::write`].
    async fn write_as<T, F>(
        &self,
        durability: Durability,
        role: DbRole,
        doing: &'static str,
        work: F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
    {
        let asked = self.ask_as(durability, |queues| &queues.writer, Some(role), work);
        self.threads.observer.time(role, asked).await.map_err(|fault| fault.during(doing))
    }

    /// Runs read-only work in its own transaction.
    async fn read<T, F>(&self, role: DbRole, doing: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
    {
        let asked = self.ask(|queues| &queues.readers, Some(role), work);
        self.threads.observer.time(role, asked).await.map_err(|fault| fault.during(doing))
    }

    /// Runs read-only work in its own transaction, on the reader for API keys.
    async fn read_keys<T, F>(&self, role: DbRole, doing: &'static str, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
    {
        let asked = self.ask(|queues| &queues.keys, Some(role), work);
        self.threads.observer.time(role, asked).await.map_err(|fault| fault.during(doing))
    }

    async fn ask<T, F>(&self, queue: fn(&Queues) -> &Queue, role: Option<DbRole>, work: F) -> Answer<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
    {
        self.ask_as(Durability::Flushed, queue, role, work).await
    }

    async fn ask_as<T, F>(
        &self,
        durability: Durability,
        queue: fn(&Queues) -> &Queue,
        role: Option<DbRole>,
        work: F,
    ) -> Answer<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
    {
        match &self.threads.queues {
            Some(queues) => commit::task::ask(queue(queues), role, durability, work).await,
            None => Err(conn::error::Fault::Closed),
        }
    }
}

/// Logs a warning if other users can open files of the database. Does not change the permissions, which the operator
/// may have set on purpose.
fn warn_of_exposed_files(path: &Path) {
    let files = conn::permissions::exposed_files(path);
    if !files.is_empty() {
        let files = files.join(", ");
        tracing::warn!(
            files,
            "other users can open files of the database: chmod 600 them, or chmod 700 their folder"
        );
    }
}
