//! Threads that read beside the writer, each with a connection of its own that cannot write. One queue
//! feeds them all; each piece of work sees one moment of the database.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use posthaste_core::ports::{StoreError, StoreResult};
use tokio::sync::mpsc;

use crate::sqlite::commit::work::{Piece, Queue};
use crate::sqlite::conn::error::{Fault, GroupLoss};
use crate::sqlite::conn::session::Guarded;

/// Pieces that may wait; whoever brings more waits before the queue.
const QUEUE_MAX: usize = 256;

/// Starts a thread of this name for each connection. They end when every sender of the queue is gone.
pub(crate) fn start(name: &str, connections: Vec<Guarded>) -> StoreResult<(Queue, Vec<JoinHandle<()>>)> {
    let (queue, pieces) = mpsc::channel(QUEUE_MAX);
    let pieces = Arc::new(Mutex::new(pieces));
    let mut threads = Vec::with_capacity(connections.len());
    for (number, guarded) in connections.into_iter().enumerate() {
        let pieces = Arc::clone(&pieces);
        let thread = std::thread::Builder::new()
            .name(format!("{name}-{number}"))
            .spawn(move || work_off(&guarded, &pieces))
            .map_err(|error| StoreError::Unavailable { doing: "starting a reader", source: error.into() })?;
        threads.push(thread);
    }
    Ok((queue, threads))
}

fn work_off(guarded: &Guarded, pieces: &Mutex<mpsc::Receiver<Box<dyn Piece>>>) {
    loop {
        // Whoever holds the lock waits for the next piece; the others wait for the lock.
        let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(mut piece) = next else { break };
        let loss =
            read(guarded, piece.as_mut()).map_err(|error| GroupLoss::during_work(&Fault::Sqlite(error)));
        if guarded.in_transaction()
            && let Err(error) = guarded.owner("ROLLBACK")
        {
            tracing::error!(%error, "a read transaction could not be ended");
        }
        piece.tell(loss.err().as_ref());
    }
}

fn read(guarded: &Guarded, piece: &mut dyn Piece) -> rusqlite::Result<()> {
    guarded.owner("BEGIN")?;
    piece.run(guarded);
    if guarded.in_transaction() { guarded.owner("COMMIT") } else { Ok(()) }
}
