//! The writer thread. It runs the tasks of all roles from one queue and commits them in groups: a group contains the
//! tasks that were queued while the previous group was committed. Callers are notified after the flush (see
//! [`Flusher`]), except for work that is repeated after a crash (see [`crate::sqlite::commit::task::Durability`]).

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use posthaste_core::ports::{StoreError, StoreResult};
use tokio::sync::mpsc;

use crate::sqlite::commit::flusher::Flusher;
use crate::sqlite::commit::log::{Log, checkpoint};
use crate::sqlite::commit::task::{Durability, Queue, Task, TaskResult};
use crate::sqlite::conn::error::{Fault, GroupLoss};
use crate::sqlite::conn::session::Guarded;

/// Maximum number of queued tasks. Callers wait while the queue is full.
const QUEUE_MAX: usize = 1_024;
/// Maximum number of tasks in a group.
const GROUP_MAX: usize = 256;
/// Running time after which a group is committed, so that large tasks do not add up to a long wait.
const GROUP_TIME_MAX: Duration = Duration::from_millis(50);
/// Default size limit of the write-ahead log, in bytes.
pub(crate) const LOG_BYTES_MAX: u64 = 64 << 20;

/// Starts the writer thread. It ends when all senders of the queue are dropped and the queue is empty.
pub(crate) fn start(guarded: Guarded, log: Log) -> StoreResult<(Queue, JoinHandle<()>)> {
    // Commits are written without fsync, which the flusher calls. Checkpoints still use fsync.
    let unflushed = guarded.connection().pragma_update(None, "synchronous", "normal");
    unflushed.map_err(|error| Fault::Sqlite(error).during("preparing the writer"))?;
    let path = log.path().to_owned();
    let flush = move || OpenOptions::new().write(true).open(&path)?.sync_data();
    // A killed process may have left commits that were never acknowledged; from now on they are visible, so they must
    // be flushed.
    if let Err(error) = flush()
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(StoreError::Unavailable { doing: "flushing the log", source: error.into() });
    }
    let flusher = Flusher::start(flush)?;
    let (queue, tasks) = mpsc::channel(QUEUE_MAX);
    let thread = std::thread::Builder::new()
        .name("sqlite-writer".to_owned())
        .spawn(move || run_loop(&guarded, flusher, tasks, log))
        .map_err(|error| StoreError::Unavailable { doing: "starting the writer", source: error.into() })?;
    Ok((queue, thread))
}

fn run_loop(guarded: &Guarded, flusher: Flusher, mut tasks: mpsc::Receiver<Box<dyn Task>>, mut log: Log) {
    let mut waiting: VecDeque<Box<dyn Task>> = VecDeque::with_capacity(GROUP_MAX);
    let mut turn = GroupKind::Flushed;
    loop {
        if waiting.is_empty() {
            match tasks.blocking_recv() {
                Some(task) => waiting.push_back(task),
                None => break,
            }
        }
        while waiting.len() < GROUP_MAX
            && let Ok(task) = tasks.try_recv()
        {
            waiting.push_back(task);
        }
        turn = turn.next(&waiting);
        let mut group = turn.take(&mut waiting);
        commit_group(guarded, &flusher, &mut group);
        // Tasks that did not fit into the group return to the front of the queue, in order.
        while let Some(task) = group.pop_back() {
            waiting.push_front(task);
        }
        log.keep_short(guarded);
    }
    drop(flusher);
    if let Err(error) = checkpoint(guarded) {
        tracing::warn!(%error, "final checkpoint failed, the next start recovers the write-ahead log");
    }
}

/// The kind of a group. The kinds alternate: while a group of one kind is flushed, a group of the other kind is
/// committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupKind {
    Flushed,
    Unflushed,
}

impl GroupKind {
    fn of(task: &dyn Task) -> Self {
        match task.durability() {
            Durability::Flushed => Self::Flushed,
            Durability::Relaxed | Durability::AfterFlushes => Self::Unflushed,
        }
    }

    fn next(self, waiting: &VecDeque<Box<dyn Task>>) -> Self {
        let other = match self {
            Self::Flushed => Self::Unflushed,
            Self::Unflushed => Self::Flushed,
        };
        if waiting.iter().any(|task| Self::of(&**task) == other) { other } else { self }
    }

    fn take(self, waiting: &mut VecDeque<Box<dyn Task>>) -> VecDeque<Box<dyn Task>> {
        let (group, rest) = std::mem::take(waiting).into_iter().partition(|task| Self::of(&**task) == self);
        *waiting = rest;
        group
    }
}

/// Runs tasks from the front of `waiting` in one transaction. Their callers are notified once it is committed and,
/// where required, flushed.
fn commit_group(guarded: &Guarded, flusher: &Flusher, waiting: &mut VecDeque<Box<dyn Task>>) {
    let mut group = Vec::with_capacity(waiting.len());
    let rows_before = guarded.connection().total_changes();
    let ran = recover(guarded, flusher).and_then(|()| run_group(guarded, waiting, &mut group));
    let Err(loss) = ran else {
        let changed = guarded.connection().total_changes() != rows_before;
        return flusher.acknowledge(group, changed);
    };
    tracing::warn!(tasks = group.len() + waiting.len(), error = %loss, "group commit failed and was rolled back");
    if guarded.in_transaction()
        && let Err(error) = guarded.owner("ROLLBACK")
    {
        tracing::error!(%error, "rolling back a failed group failed");
    }
    // The remaining tasks of the group have not run and get the same error. Their callers may retry.
    group.extend(waiting.drain(..));
    for task in group {
        task.acknowledge(Some(&loss));
    }
}

/// Checkpoints the whole log if a flush has failed. Nothing is written until that succeeds.
fn recover(guarded: &Guarded, flusher: &Flusher) -> Result<(), Arc<GroupLoss>> {
    if !flusher.is_broken() {
        return Ok(());
    }
    match checkpoint(guarded) {
        Ok(true) => {
            flusher.mark_recovered();
            tracing::info!("write-ahead log checkpointed after a failed flush, accepting writes again");
            Ok(())
        }
        Ok(false) => {
            Err(GroupLoss::during_flush(&io::Error::other("an earlier flush of the write-ahead log failed")))
        }
        Err(error) => Err(GroupLoss::during_work(&Fault::Sqlite(error))),
    }
}

fn run_group(
    guarded: &Guarded,
    waiting: &mut VecDeque<Box<dyn Task>>,
    group: &mut Vec<Box<dyn Task>>,
) -> Result<(), Arc<GroupLoss>> {
    let lost = |error: rusqlite::Error| GroupLoss::during_work(&Fault::Sqlite(error));
    guarded.owner("BEGIN IMMEDIATE").map_err(lost)?;
    if waiting.len() == 1 {
        if let Some(mut task) = waiting.pop_front() {
            let ran = task.run(guarded);
            group.push(task);
            match still_open(guarded, ran)? {
                true => {}
                false => return guarded.owner("ROLLBACK").map_err(lost),
            }
        }
    } else {
        let begun = Instant::now();
        while begun.elapsed() < GROUP_TIME_MAX
            && let Some(mut task) = waiting.pop_front()
        {
            guarded.owner("SAVEPOINT piece").map_err(lost)?;
            let ran = task.run(guarded);
            group.push(task);
            if !still_open(guarded, ran)? {
                guarded.owner("ROLLBACK TO piece").map_err(lost)?;
            }
            guarded.owner("RELEASE piece").map_err(lost)?;
        }
    }
    guarded.owner("COMMIT").map_err(GroupLoss::during_commit)
}

/// Returns whether the task succeeded. Returns an error if the transaction is no longer open, even if the task
/// succeeded: on a full disk, an I/O error or out of memory, SQLite rolls back the whole transaction.
fn still_open(guarded: &Guarded, ran: TaskResult) -> Result<bool, Arc<GroupLoss>> {
    match ran {
        TaskResult::Lost(loss) => Err(loss),
        TaskResult::Done | TaskResult::Failed if !guarded.in_transaction() => Err(GroupLoss::vanished()),
        TaskResult::Done => Ok(true),
        TaskResult::Failed => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Sender, channel};

    /// A task that inserts one row.
    struct Row(Sender<bool>);

    impl Task for Row {
        fn durability(&self) -> Durability {
            Durability::Flushed
        }

        fn run(&mut self, guarded: &Guarded) -> TaskResult {
            guarded.owner("INSERT INTO rows DEFAULT VALUES").expect("a row");
            TaskResult::Done
        }

        fn acknowledge(self: Box<Self>, loss: Option<&Arc<GroupLoss>>) {
            self.0.send(loss.is_none()).expect("the test receives it");
        }
    }

    struct Named(Durability, &'static str, Sender<&'static str>);

    impl Task for Named {
        fn durability(&self) -> Durability {
            self.0
        }

        fn run(&mut self, _: &Guarded) -> TaskResult {
            TaskResult::Done
        }

        fn acknowledge(self: Box<Self>, _: Option<&Arc<GroupLoss>>) {
            self.2.send(self.1).expect("the test receives it");
        }
    }

    #[test]
    fn flushed_and_unflushed_groups_alternate() {
        use Durability::{AfterFlushes, Flushed, Relaxed};
        let (acknowledged, names) = channel();
        let rows = [(Flushed, "a"), (Relaxed, "b"), (Flushed, "c"), (AfterFlushes, "d")];
        for (before, first, second) in [(GroupKind::Unflushed, "ac", "bd"), (GroupKind::Flushed, "bd", "ac")]
        {
            let task = |(kind, name)| Box::new(Named(kind, name, acknowledged.clone())) as Box<dyn Task>;
            let mut waiting: VecDeque<Box<dyn Task>> = rows.into_iter().map(task).collect();
            let mut turn = before;
            // In the third round there is no task of the other kind, so the new task is next.
            for expected in [first, second, "e"] {
                if waiting.is_empty() {
                    waiting.push_back(task((Flushed, "e")));
                }
                turn = turn.next(&waiting);
                turn.take(&mut waiting).into_iter().for_each(|task| task.acknowledge(None));
                assert_eq!(names.try_iter().collect::<String>(), expected, "after {before:?}");
            }
        }
    }

    #[test]
    fn failed_flush_is_followed_by_a_checkpoint() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("test.db");
        let connection = rusqlite::Connection::open(&path).expect("a database");
        connection
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE rows (id INTEGER PRIMARY KEY)")
            .expect("a table");
        let guarded = Guarded::new(connection).expect("a connection");
        let log_bytes = || std::fs::metadata(folder.path().join("test.db-wal")).expect("a log").len();
        let fails = Arc::new(AtomicBool::new(true));
        let disk = Arc::clone(&fails);
        let flusher = Flusher::start(move || match disk.load(Ordering::Relaxed) {
            true => Err(io::Error::other("I/O error")),
            false => Ok(()),
        });
        let flusher = flusher.expect("a thread");
        let (sender, acknowledged) = channel();
        let write = || {
            commit_group(
                &guarded,
                &flusher,
                &mut VecDeque::from([Box::new(Row(sender.clone())) as Box<dyn Task>]),
            );
            acknowledged.recv().expect("an acknowledgement")
        };
        let (names, named) = channel();
        let nothing = Box::new(Named(Durability::Flushed, "nothing", names)) as Box<dyn Task>;
        commit_group(&guarded, &flusher, &mut VecDeque::from([nothing]));
        assert_eq!(named.recv().expect("an acknowledgement"), "nothing");
        assert!(!flusher.is_broken(), "a group without changes needs no flush");
        assert!(!write(), "an unflushed commit must not be acknowledged as done");
        let before = log_bytes();
        fails.store(false, Ordering::Relaxed);
        assert!(write());
        assert!(log_bytes() < before, "the log was checkpointed before anything else was written");
        assert!(!flusher.is_broken());
        let rows =
            guarded.connection().query_row("SELECT count(*) FROM rows", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows.expect("a count"), 2);
    }
}
