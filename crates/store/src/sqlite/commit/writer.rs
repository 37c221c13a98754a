//! The one thread that writes. It takes the pieces of work of all roles from one queue and commits
//! them in groups: a group is what waited while the last one was committed. Nobody is told before the
//! commit is on the disk (see [`Flusher`]), but for work that a crash can only repeat (see
//! [`crate::sqlite::commit::task::Durability`]).

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

/// Pieces that may wait; whoever brings more waits before the queue.
const QUEUE_MAX: usize = 1_024;
/// Pieces in one group, at most.
const GROUP_MAX: usize = 256;
/// A group is closed when its work has taken this long: large pieces do not add up to a long wait.
const GROUP_TIME_MAX: Duration = Duration::from_millis(50);
/// How long the write-ahead log may grow, unless somebody sets it otherwise.
pub(crate) const LOG_BYTES_MAX: u64 = 64 << 20;

/// Starts the thread. It ends when every sender of the queue is gone and the queue is empty.
pub(crate) fn start(guarded: Guarded, log: Log) -> StoreResult<(Queue, JoinHandle<()>)> {
    // A commit is written and not flushed: that is the flusher's. Checkpoints flush as ever.
    let unflushed = guarded.connection().pragma_update(None, "synchronous", "normal");
    unflushed.map_err(|error| Fault::Sqlite(error).during("preparing the writer"))?;
    let path = log.path().to_owned();
    let flush = move || OpenOptions::new().write(true).open(&path)?.sync_data();
    // A process that was killed may have left commits that nobody was told of; from now on they count.
    if let Err(error) = flush()
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(StoreError::Unavailable { doing: "flushing the log", source: error.into() });
    }
    let flusher = Flusher::start(flush)?;
    let (queue, tasks) = mpsc::channel(QUEUE_MAX);
    let thread = std::thread::Builder::new()
        .name("sqlite-writer".to_owned())
        .spawn(move || work_off(&guarded, flusher, tasks, log))
        .map_err(|error| StoreError::Unavailable { doing: "starting the writer", source: error.into() })?;
    Ok((queue, thread))
}

fn work_off(guarded: &Guarded, flusher: Flusher, mut tasks: mpsc::Receiver<Box<dyn Task>>, mut log: Log) {
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
        // What did not fit comes first, in its order.
        while let Some(task) = group.pop_back() {
            waiting.push_front(task);
        }
        log.keep_short(guarded);
    }
    drop(flusher);
    if let Err(error) = checkpoint(guarded) {
        tracing::warn!(%error, "the log could not be emptied at the end; the next start reads it");
    }
}

/// Those who wait for the disk and those who do not take turns: while the one kind is flushed, the other is committed.
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

/// Runs pieces from the front of the queue in one transaction. Their callers are told when it is committed and, where
/// they need it, on the disk.
fn commit_group(guarded: &Guarded, flusher: &Flusher, waiting: &mut VecDeque<Box<dyn Task>>) {
    let mut group = Vec::with_capacity(waiting.len());
    let rows_before = guarded.connection().total_changes();
    let ran = mend(guarded, flusher).and_then(|()| run_group(guarded, waiting, &mut group));
    let Err(loss) = ran else {
        let changed = guarded.connection().total_changes() != rows_before;
        return flusher.acknowledge(group, changed);
    };
    tracing::warn!(tasks = group.len() + waiting.len(), error = %loss, "a group was rolled back");
    if guarded.in_transaction()
        && let Err(error) = guarded.owner("ROLLBACK")
    {
        tracing::error!(%error, "a lost group could not be rolled back");
    }
    // The rest of the group has not run, and is told the same: it may try again.
    group.extend(waiting.drain(..));
    for task in group {
        task.acknowledge(Some(&loss));
    }
}

/// After a flush that failed, brings all of the log into the database. Nothing is written before that has been done.
fn mend(guarded: &Guarded, flusher: &Flusher) -> Result<(), Arc<GroupLoss>> {
    if !flusher.is_broken() {
        return Ok(());
    }
    match checkpoint(guarded) {
        Ok(true) => {
            flusher.mended();
            tracing::info!("all of the log is in the database, and on the disk again");
            Ok(())
        }
        Ok(false) => Err(GroupLoss::during_flush(&io::Error::other("an earlier flush of the log failed"))),
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

/// Whether the piece did its work. SQLite answers a full disk, an I/O error and a lack of memory by
/// rolling back all of the transaction; what then looks like success is gone.
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

    /// Writes one row.
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
            self.0.send(loss.is_none()).expect("somebody who listens");
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
            self.2.send(self.1).expect("somebody who listens");
        }
    }

    #[test]
    fn those_who_need_the_disk_and_those_who_do_not_take_turns() {
        use Durability::{AfterFlushes, Flushed, Relaxed};
        let (told, names) = channel();
        let rows = [(Flushed, "a"), (Relaxed, "b"), (Flushed, "c"), (AfterFlushes, "d")];
        for (before, first, second) in [(GroupKind::Unflushed, "ac", "bd"), (GroupKind::Flushed, "bd", "ac")]
        {
            let task = |(kind, name)| Box::new(Named(kind, name, told.clone())) as Box<dyn Task>;
            let mut waiting: VecDeque<Box<dyn Task>> = rows.into_iter().map(task).collect();
            let mut turn = before;
            // The other kind is gone by the third time: whoever comes has the turn.
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
    fn after_a_failed_flush_the_log_goes_into_the_database_first() {
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
            true => Err(io::Error::other("the disk is gone")),
            false => Ok(()),
        });
        let flusher = flusher.expect("a thread");
        let (tell, told) = channel();
        let write = || {
            commit_group(
                &guarded,
                &flusher,
                &mut VecDeque::from([Box::new(Row(tell.clone())) as Box<dyn Task>]),
            );
            told.recv().expect("an answer")
        };
        let (names, named) = channel();
        let nothing = Box::new(Named(Durability::Flushed, "nothing", names)) as Box<dyn Task>;
        commit_group(&guarded, &flusher, &mut VecDeque::from([nothing]));
        assert_eq!(named.recv().expect("an answer"), "nothing");
        assert!(!flusher.is_broken(), "what changed nothing needs no disk");
        assert!(!write(), "it may be lost, and so nobody is told that it is there");
        let before = log_bytes();
        fails.store(false, Ordering::Relaxed);
        assert!(write());
        assert!(
            log_bytes() < before,
            "the log was emptied into the database before anything else was written"
        );
        assert!(!flusher.is_broken());
        let rows =
            guarded.connection().query_row("SELECT count(*) FROM rows", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows.expect("a count"), 2);
    }
}
