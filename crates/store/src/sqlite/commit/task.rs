//! Units of work that ports send to the database threads, and the channels for their results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::grants::DbRole;
use crate::sqlite::conn::error::{Answer, Fault, GroupLoss};
use crate::sqlite::conn::session::{Guarded, Session};

/// The result of running a task. The caller is notified only after the transaction is committed.
#[derive(Debug, Clone)]
pub(crate) enum TaskResult {
    Done,
    /// The task is rolled back; the rest of the group continues.
    Failed,
    /// The whole group is rolled back.
    Lost(Arc<GroupLoss>),
}

/// The condition under which the caller of a committed task is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The commit is flushed.
    Flushed,
    /// The commit is written, and will be flushed with the next commit that requires it. The log preserves the commit
    /// order, so after a power failure the database is in an earlier state, in which the same work is still pending. If
    /// only the process is killed, nothing is lost.
    Relaxed,
    /// The commit is written, and all earlier commits are flushed. Used for claims: a claimed job is sent, and a
    /// request must not refer to data that a power failure may erase.
    AfterFlushes,
}

/// A task with an erased result type, so that one queue can hold tasks of all types.
pub(crate) trait Task: Send {
    /// Returns the condition under which the caller is notified.
    fn durability(&self) -> Durability;

    fn run(&mut self, guarded: &Guarded) -> TaskResult;

    /// Sends the result to the caller, or `loss` if the group was lost.
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
            .unwrap_or_else(|panic| Err(Fault::Panicked(panic_message(panic.as_ref()))));
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
        // The caller may have been cancelled; the work stays committed.
        let _ = self.caller.send(answer);
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().copied();
    words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// Queues work for a role, or for the owner if `role` is `None`, and waits for its result. Waits while the queue is
/// full.
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
