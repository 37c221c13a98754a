//! Reader threads, each with its own read-only connection. They share one queue and run concurrently with the writer.
//! Each task reads from one snapshot.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use posthaste_core::ports::{StoreError, StoreResult};
use tokio::sync::mpsc;

use crate::sqlite::commit::task::{Queue, Task};
use crate::sqlite::conn::error::{Fault, GroupLoss};
use crate::sqlite::conn::session::Guarded;

/// Maximum number of queued tasks. Callers wait while the queue is full.
const QUEUE_MAX: usize = 256;

/// Starts a reader thread for each connection. The threads end when all senders of the queue are dropped.
pub(crate) fn start(name: &str, connections: Vec<Guarded>) -> StoreResult<(Queue, Vec<JoinHandle<()>>)> {
    let (queue, tasks) = mpsc::channel(QUEUE_MAX);
    let tasks = Arc::new(Mutex::new(tasks));
    let mut threads = Vec::with_capacity(connections.len());
    for (number, guarded) in connections.into_iter().enumerate() {
        let tasks = Arc::clone(&tasks);
        let thread = std::thread::Builder::new()
            .name(format!("{name}-{number}"))
            .spawn(move || run_loop(&guarded, &tasks))
            .map_err(|error| StoreError::Unavailable { doing: "starting a reader", source: error.into() })?;
        threads.push(thread);
    }
    Ok((queue, threads))
}

fn run_loop(guarded: &Guarded, tasks: &Mutex<mpsc::Receiver<Box<dyn Task>>>) {
    loop {
        // The thread that holds the lock waits for the next task; the others wait for the lock.
        let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(mut task) = next else { break };
        let loss =
            read(guarded, task.as_mut()).map_err(|error| GroupLoss::during_work(&Fault::Sqlite(error)));
        if guarded.in_transaction()
            && let Err(error) = guarded.owner("ROLLBACK")
        {
            tracing::error!(%error, "rolling back a read transaction failed");
        }
        task.acknowledge(loss.err().as_ref());
    }
}

fn read(guarded: &Guarded, task: &mut dyn Task) -> rusqlite::Result<()> {
    guarded.owner("BEGIN")?;
    task.run(guarded);
    if guarded.in_transaction() { guarded.owner("COMMIT") } else { Ok(()) }
}
