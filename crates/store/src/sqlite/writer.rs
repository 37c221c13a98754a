//! The one thread that writes. It takes the pieces of work of all roles from one queue and commits
//! them in groups: a group is what waited while the last one was committed. Nobody is told before the
//! commit is on the disk, but for work that a crash can only repeat (see [`Durability`]).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use posthaste_core::ports::{StoreError, StoreResult};
use tokio::sync::mpsc;

use super::connection::BUSY_TIMEOUT;
use super::error::{Fault, GroupLoss};
use super::session::Guarded;
use super::work::{Durability, Piece, Queue, Ran};

/// Pieces that may wait; whoever brings more waits before the queue.
const QUEUE_MAX: usize = 1_024;
/// Pieces in one group, at most.
const GROUP_MAX: usize = 256;
/// A group is closed when its work has taken this long: large pieces do not add up to a long wait.
const GROUP_TIME_MAX: Duration = Duration::from_millis(50);
/// How long one try to empty the log waits for readers, and how many tries there are.
const CHECKPOINT_TRY: Duration = Duration::from_millis(20);
const CHECKPOINT_TRIES: u32 = 100;
/// How long the write-ahead log may grow, unless somebody sets it otherwise.
pub(super) const LOG_BYTES_MAX: u64 = 64 << 20;

/// Starts the thread. It ends when every sender of the queue is gone and the queue is empty.
pub(super) fn start(guarded: Guarded, log: Log) -> StoreResult<(Queue, JoinHandle<()>)> {
    let (queue, pieces) = mpsc::channel(QUEUE_MAX);
    let thread = std::thread::Builder::new()
        .name("sqlite-writer".to_owned())
        .spawn(move || work_off(&guarded, pieces, log))
        .map_err(|error| StoreError::Unavailable { doing: "starting the writer", source: error.into() })?;
    Ok((queue, thread))
}

fn work_off(guarded: &Guarded, mut pieces: mpsc::Receiver<Box<dyn Piece>>, mut log: Log) {
    let mut waiting: VecDeque<Box<dyn Piece>> = VecDeque::with_capacity(GROUP_MAX);
    let mut flushing = Flushing(Durability::Flushed);
    loop {
        if waiting.is_empty() {
            match pieces.blocking_recv() {
                Some(piece) => waiting.push_back(piece),
                None => break,
            }
        }
        while waiting.len() < GROUP_MAX
            && let Ok(piece) = pieces.try_recv()
        {
            waiting.push_back(piece);
        }
        let mut group = flushing.take_turn(&mut waiting);
        commit_group(guarded, &mut flushing, &mut group);
        // What did not fit comes first, in its order.
        while let Some(piece) = group.pop_back() {
            waiting.push_front(piece);
        }
        log.keep_short(guarded);
    }
    if let Err(error) = checkpoint(guarded) {
        tracing::warn!(%error, "the log could not be emptied at the end; the next start reads it");
    }
}

/// Whether commits go to the disk at once. A commit of one small piece costs some 200 µs of the
/// writer's time if it does, 90 µs if not; in batches of 32, deliveries cost 50 µs instead of 60.
struct Flushing(Durability);

impl Flushing {
    /// The pieces of the next group: one kind of them, and where both kinds wait they take turns. Whoever waits
    /// for the disk does not wait for what need not go there, and that is committed without: with 64 callers
    /// and one subscription 2 to 3 % more deliveries, with ten 4 %, and at 20 events a second each arrives
    /// 0.4 ms sooner.
    fn take_turn(&self, waiting: &mut VecDeque<Box<dyn Piece>>) -> VecDeque<Box<dyn Piece>> {
        let waits = |kind| waiting.iter().any(|piece| piece.durability() == kind);
        let other = match self.0 {
            Durability::Flushed => Durability::Repeatable,
            Durability::Repeatable => Durability::Flushed,
        };
        let turn = if waits(other) { other } else { self.0 };
        let (group, rest) = std::mem::take(waiting).into_iter().partition(|piece| piece.durability() == turn);
        *waiting = rest;
        group
    }

    /// Sets what the pieces of a group need, all of them if any of them. Between groups, because within
    /// a transaction SQLite lets nobody change it.
    fn set_for(&mut self, guarded: &Guarded, pieces: &VecDeque<Box<dyn Piece>>) -> rusqlite::Result<()> {
        let repeatable = pieces.iter().all(|piece| piece.durability() == Durability::Repeatable);
        let (wanted, level) =
            if repeatable { (Durability::Repeatable, "normal") } else { (Durability::Flushed, "full") };
        if wanted != self.0 {
            guarded.connection().pragma_update(None, "synchronous", level)?;
            self.0 = wanted;
        }
        Ok(())
    }
}

/// Runs pieces from the front of the queue in one transaction and tells their callers.
fn commit_group(guarded: &Guarded, flushing: &mut Flushing, waiting: &mut VecDeque<Box<dyn Piece>>) {
    let mut group = Vec::with_capacity(waiting.len());
    let ran = match flushing.set_for(guarded, waiting) {
        Ok(()) => run_group(guarded, waiting, &mut group),
        Err(error) => Err(GroupLoss::during_work(&Fault::Sqlite(error))),
    };
    let loss = ran.err();
    if let Some(loss) = &loss {
        tracing::warn!(pieces = group.len() + waiting.len(), error = %loss, "a group was rolled back");
        if guarded.in_transaction()
            && let Err(error) = guarded.owner("ROLLBACK")
        {
            tracing::error!(%error, "a lost group could not be rolled back");
        }
        // The rest of the group has not run, and is told the same: it may try again.
        group.extend(waiting.drain(..));
    }
    for piece in group {
        piece.tell(loss.as_ref());
    }
}

fn run_group(
    guarded: &Guarded,
    waiting: &mut VecDeque<Box<dyn Piece>>,
    group: &mut Vec<Box<dyn Piece>>,
) -> Result<(), Arc<GroupLoss>> {
    let lost = |error: rusqlite::Error| GroupLoss::during_work(&Fault::Sqlite(error));
    guarded.owner("BEGIN IMMEDIATE").map_err(lost)?;
    if waiting.len() == 1 {
        if let Some(mut piece) = waiting.pop_front() {
            let ran = piece.run(guarded);
            group.push(piece);
            match still_open(guarded, ran)? {
                true => {}
                false => return guarded.owner("ROLLBACK").map_err(lost),
            }
        }
    } else {
        let begun = Instant::now();
        while begun.elapsed() < GROUP_TIME_MAX
            && let Some(mut piece) = waiting.pop_front()
        {
            guarded.owner("SAVEPOINT piece").map_err(lost)?;
            let ran = piece.run(guarded);
            group.push(piece);
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
fn still_open(guarded: &Guarded, ran: Ran) -> Result<bool, Arc<GroupLoss>> {
    match ran {
        Ran::Lost(loss) => Err(loss),
        Ran::Done | Ran::Failed if !guarded.in_transaction() => Err(GroupLoss::vanished()),
        Ran::Done => Ok(true),
        Ran::Failed => Ok(false),
    }
}

/// The write-ahead log beside the database.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    bytes_max: u64,
    /// The length from which on it is emptied; more than the bound after a try that readers prevented.
    empty_from: u64,
}

impl Log {
    pub(super) fn new(database: &Path, bytes_max: u64) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-wal");
        Self { path: PathBuf::from(name), bytes_max, empty_from: bytes_max }
    }

    /// Empties a log that has grown past its bound, waiting for readers that are still in it. The
    /// automatic checkpoint copies pages but starts the log over only in a moment without readers,
    /// which under constant reading never comes.
    fn keep_short(&mut self, guarded: &Guarded) {
        let bytes = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if bytes < self.empty_from {
            return;
        }
        match checkpoint(guarded) {
            Ok(true) => self.empty_from = self.bytes_max,
            Ok(false) => {
                tracing::warn!(bytes, "a reader kept the log from being emptied");
                self.empty_from = bytes.saturating_add(self.bytes_max / 4);
            }
            Err(error) => tracing::warn!(%error, bytes, "the log could not be emptied"),
        }
    }
}

/// Copies all of the log into the database and cuts it off. Answers whether readers let it.
///
/// Waiting is done in short tries. SQLite waits for the reader that it found in an old part of the log
/// by waiting for that reader's lock, and does not notice when newer readers, which it need not wait
/// for, take the lock over one from the other: with two that overlap for ever, one try of ten seconds
/// was not enough, and the second of many short ones is.
fn checkpoint(guarded: &Guarded) -> rusqlite::Result<bool> {
    let connection = guarded.connection();
    connection.busy_timeout(CHECKPOINT_TRY)?;
    let mut emptied = false;
    for _ in 0..CHECKPOINT_TRIES {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        emptied = connection.query_row(sql, [], |row| row.get(0).map(|busy: bool| !busy))?;
        if emptied {
            break;
        }
    }
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(emptied)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(Durability, &'static str, std::sync::mpsc::Sender<&'static str>);

    impl Piece for Named {
        fn durability(&self) -> Durability {
            self.0
        }

        fn run(&mut self, _: &Guarded) -> Ran {
            Ran::Done
        }

        fn tell(self: Box<Self>, _: Option<&Arc<GroupLoss>>) {
            self.2.send(self.1).expect("somebody who listens");
        }
    }

    #[test]
    fn those_who_need_the_disk_and_those_who_do_not_take_turns() {
        use Durability::{Flushed, Repeatable};
        let (told, names) = std::sync::mpsc::channel();
        let rows = [(Flushed, "a"), (Repeatable, "b"), (Flushed, "c"), (Repeatable, "d")];
        for (before, first, second) in [(Repeatable, "ac", "bd"), (Flushed, "bd", "ac")] {
            let piece = |(kind, name)| Box::new(Named(kind, name, told.clone())) as Box<dyn Piece>;
            let mut waiting: VecDeque<Box<dyn Piece>> = rows.into_iter().map(piece).collect();
            for expected in [first, second] {
                // The other kind is gone by the second time: whoever is left has the turn.
                let group = Flushing(before).take_turn(&mut waiting);
                group.into_iter().for_each(|piece| piece.tell(None));
                assert_eq!(names.try_iter().collect::<String>(), expected, "after {before:?}");
            }
            assert!(waiting.is_empty());
        }
    }
}
