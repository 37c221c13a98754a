//! The one thread that writes. It takes the pieces of work of all roles from one queue and commits
//! them in groups: a group is what waited while the last one was committed. Nobody is told before the
//! commit is on the disk.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use posthaste_core::ports::{StoreError, StoreResult};
use tokio::sync::mpsc;

use super::error::{Fault, GroupLoss};
use super::session::Guarded;
use super::work::{Piece, Queue, Ran};

/// Pieces that may wait; whoever brings more waits before the queue.
const QUEUE_MAX: usize = 1_024;
/// Pieces in one group, at most.
const GROUP_MAX: usize = 256;
/// A group is closed when its work has taken this long: large pieces do not add up to a long wait.
const GROUP_TIME_MAX: Duration = Duration::from_millis(50);
/// A log longer than this is emptied before the next group, waiting for readers that are still in it.
pub(super) const LOG_BYTES_MAX: u64 = 64 << 20;

/// Starts the thread. It ends when every sender of the queue is gone and the queue is empty.
pub(super) fn start(guarded: Guarded, path: &Path) -> StoreResult<(Queue, JoinHandle<()>)> {
    let (queue, pieces) = mpsc::channel(QUEUE_MAX);
    let log = log_path(path);
    let thread = std::thread::Builder::new()
        .name("sqlite-writer".to_owned())
        .spawn(move || work_off(&guarded, pieces, &log))
        .map_err(|error| StoreError::Unavailable { doing: "starting the writer", source: error.into() })?;
    Ok((queue, thread))
}

pub(super) fn log_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

fn work_off(guarded: &Guarded, mut pieces: mpsc::Receiver<Box<dyn Piece>>, log: &Path) {
    let mut waiting = VecDeque::with_capacity(GROUP_MAX);
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
        commit_group(guarded, &mut waiting);
        keep_log_short(guarded, log);
    }
    if let Err(error) = checkpoint(guarded) {
        tracing::warn!(%error, "the log could not be emptied at the end; the next start reads it");
    }
}

/// Runs pieces from the front of the queue in one transaction and tells their callers.
fn commit_group(guarded: &Guarded, waiting: &mut VecDeque<Box<dyn Piece>>) {
    let mut group = Vec::with_capacity(waiting.len());
    let loss = run_group(guarded, waiting, &mut group).err();
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

/// Empties a log that has grown past its bound. The automatic checkpoint copies pages but starts the
/// log over only in a moment without readers, which under constant reading never comes.
fn keep_log_short(guarded: &Guarded, log: &Path) {
    let bytes = std::fs::metadata(log).map_or(0, |file| file.len());
    if bytes > LOG_BYTES_MAX
        && let Err(error) = checkpoint(guarded)
    {
        tracing::warn!(%error, bytes, "the log could not be emptied");
    }
}

fn checkpoint(guarded: &Guarded) -> rusqlite::Result<()> {
    guarded.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
