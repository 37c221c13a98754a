//! A piece of work: what a port asks of a thread that owns a connection, and the way back of its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::grants::DbRole;
use crate::sqlite::conn::error::{Answer, Fault, GroupLoss};
use crate::sqlite::conn::session::{Guarded, Session};

/// What came of running a piece. Nobody is told before its transaction has been committed.
#[derive(Debug, Clone)]
pub(crate) enum TaskResult {
    Done,
    /// Its own changes are to be undone; the others of the group go on.
    Failed,
    /// Everything of the group is lost.
    Lost(Arc<GroupLoss>),
}

/// What must have happened to a commit before its caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is on the disk.
    Flushed,
    /// It is written, and goes to the disk with the next commit that is flushed. The log keeps its
    /// order, so a machine that loses power comes back to an earlier state in which the same work is
    /// still to be done. A process that is killed loses nothing.
    Relaxed,
    /// The same, and everything that was committed before it is on the disk: what is claimed is sent, and nothing
    /// may be sent of which a machine that loses power knows nothing afterwards.
    AfterFlushes,
}

/// Work of any kind in one queue.
pub(crate) trait Task: Send {
    /// Whether its commit must be on the disk before anybody is told.
    fn durability(&self) -> Durability;

    fn run(&mut self, guarded: &Guarded) -> TaskResult;

    /// Tells the caller how it went; with a loss, that it was undone.
    fn acknowledge(self: Box<Self>, loss: Option<&Arc<GroupLoss>>);
}

pub(crate) type Queue = mpsc::Sender<Box<dyn Task>>;

struct RoleTask<T, F> {
    role: Option<DbRole>,
    durability: Durability,
    work: Option<F>,
    answer: Option<Answer<T>>,
    caller: oneshot::Sender<Answer<T>>,
}

impl<T, F> Task for RoleTask<T, F>
where
    T: Send,
    F: FnOnce(&Session<'_>) -> Answer<T> + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(&mut self, guarded: &Guarded) -> TaskResult {
        let Some(work) = self.work.take() else { return TaskResult::Failed };
        let answer = catch_unwind(AssertUnwindSafe(|| work(&guarded.session(self.role))))
            .unwrap_or_else(|panic| Err(Fault::Panicked(words_of(panic.as_ref()))));
        let ran = match &answer {
            Ok(_) => TaskResult::Done,
            Err(fault) if fault.is_fatal_for_group() => TaskResult::Lost(GroupLoss::during_work(fault)),
            Err(_) => TaskResult::Failed,
        };
        self.answer = Some(answer);
        ran
    }

    fn acknowledge(self: Box<Self>, loss: Option<&Arc<GroupLoss>>) {
        let answer = match (self.answer, loss) {
            (Some(Err(fault)), _) => Err(fault),
            (_, Some(loss)) => Err(Fault::GroupLost(Arc::clone(loss))),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Fault::Closed),
        };
        // A caller that went away has nobody to tell; the work stands.
        let _ = self.caller.send(answer);
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().copied();
    words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// Queues work for a role (or for the owner), waiting while the queue is full, and waits for its answer.
pub(crate) async fn ask<T, F>(
    queue: &Queue,
    role: Option<DbRole>,
    durability: Durability,
    work: F,
) -> Answer<T>
where
    T: Send + 'static,
    F: FnOnce(&Session<'_>) -> Answer<T> + Send + 'static,
{
    let (caller, answer) = oneshot::channel();
    let task = RoleTask { role, durability, work: Some(work), answer: None, caller };
    queue.send(Box::new(task)).await.map_err(|_| Fault::Closed)?;
    answer.await.map_err(|_| Fault::Closed)?
}
