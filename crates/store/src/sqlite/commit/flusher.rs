//! The thread that brings the log to the disk. The writer commits without waiting for it and hands over whoever must not
//! be told before; one flush serves everybody whose commit was written when it began, and the writer goes on
//! meanwhile. With 64 callers and one subscription that is 5 to 10 % more deliveries than flushing in between.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use posthaste_core::ports::{StoreError, StoreResult};

use crate::sqlite::commit::task::{Durability, Task};
use crate::sqlite::conn::error::GroupLoss;

/// Pieces that were committed together, and whether that must come to the disk.
struct Group {
    tasks: Vec<Box<dyn Task>>,
    must_flush: bool,
}

/// Ends its thread when it is dropped, after everybody was told.
pub(crate) struct Flusher {
    /// Empty only while the thread ends.
    queue: Option<mpsc::Sender<Group>>,
    thread: Option<JoinHandle<()>>,
    broken: Arc<AtomicBool>,
}

impl Flusher {
    /// `flush` brings everything that was written before it is called to the disk.
    pub(crate) fn start(flush: impl FnMut() -> io::Result<()> + Send + 'static) -> StoreResult<Self> {
        let (queue, groups) = mpsc::channel();
        let broken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&broken);
        let thread = std::thread::Builder::new()
            .name("sqlite-flusher".to_owned())
            .spawn(move || work_off(&groups, flush, &seen))
            .map_err(|error| StoreError::Unavailable {
                doing: "starting the flusher",
                source: error.into(),
            })?;
        Ok(Self { queue: Some(queue), thread: Some(thread), broken })
    }

    /// Tells the pieces of a group that was committed: those that need not wait at once. One that changed no row needs no
    /// flush of its own, but may have seen what one before it did.
    pub(crate) fn acknowledge(&self, group: Vec<Box<dyn Task>>, changed: bool) {
        let (at_once, later): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|task| task.durability() == Durability::Relaxed);
        at_once.into_iter().for_each(|task| task.acknowledge(None));
        let Some(queue) = self.queue.as_ref().filter(|_| !later.is_empty()) else { return };
        let must_flush = changed && later.iter().any(|task| task.durability() == Durability::Flushed);
        if let Err(mpsc::SendError(group)) = queue.send(Group { tasks: later, must_flush }) {
            let loss = GroupLoss::during_flush(&io::Error::other("the thread that flushes has ended"));
            group.tasks.into_iter().for_each(|task| task.acknowledge(Some(&loss)));
        }
    }

    /// Whether a flush failed. What it should have brought to the disk may never come there, though a later flush
    /// succeeds: then all of the log must go into the database, before anything else is written.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// All that was written is on the disk by another way.
    pub(crate) fn mended(&self) {
        self.broken.store(false, Ordering::Release);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that flushes the log had panicked");
        }
    }
}

fn work_off(groups: &mpsc::Receiver<Group>, mut flush: impl FnMut() -> io::Result<()>, broken: &AtomicBool) {
    while let Ok(Group { mut tasks, mut must_flush }) = groups.recv() {
        for group in groups.try_iter() {
            tasks.extend(group.tasks);
            must_flush |= group.must_flush;
        }
        let loss = if broken.load(Ordering::Acquire) {
            Some(GroupLoss::during_flush(&io::Error::other("an earlier flush of the log failed")))
        } else if must_flush {
            flush().err().map(|error| {
                broken.store(true, Ordering::Release);
                tracing::error!(%error, "the log could not be flushed");
                GroupLoss::during_flush(&error)
            })
        } else {
            // Whatever was committed before it has been flushed: groups come in their order.
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
            self.2.send((self.1, loss.is_none())).expect("somebody who listens");
        }
    }

    /// A flusher whose flushes announce themselves and end as they are told to, one after the other.
    struct Rig {
        flusher: Flusher,
        begun: mpsc::Receiver<()>,
        end: mpsc::Sender<io::Result<()>>,
        told: Acknowledged,
        heard: mpsc::Receiver<(&'static str, bool)>,
    }

    fn rig() -> Rig {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (told, heard) = mpsc::channel();
        let flusher = Flusher::start(move || {
            begin.send(()).expect("somebody who watches");
            ended.recv().expect("an end")
        });
        Rig { flusher: flusher.expect("a thread"), begun, end, told, heard }
    }

    impl Rig {
        fn hand(&self, tasks: &[(Durability, &'static str)]) {
            let task = |(kind, name): (Durability, &'static str)| {
                Box::new(Named(kind, name, self.told.clone())) as Box<dyn Task>
            };
            self.flusher.acknowledge(tasks.iter().copied().map(task).collect(), true);
        }

        fn hand_unchanged(&self, name: &'static str) {
            self.flusher.acknowledge(vec![Box::new(Named(Flushed, name, self.told.clone()))], false);
        }

        fn hear(&self, count: usize) -> Vec<(&'static str, bool)> {
            (0..count).map(|_| self.heard.recv().expect("somebody is told")).collect()
        }

        fn is_silent(&self) -> bool {
            self.heard.try_recv().is_err()
        }
    }

    use Durability::{AfterFlushes, Flushed, Relaxed};

    #[test]
    fn nobody_who_needs_the_disk_is_told_before_it_has_everything() {
        let rig = rig();
        rig.hand(&[(Flushed, "event"), (Relaxed, "route"), (AfterFlushes, "claim")]);
        rig.begun.recv().expect("a flush");
        assert_eq!(rig.hear(1), [("route", true)], "what a crash can only repeat waits for nobody");
        // Committed while the first flush was under way: one more flush serves both.
        rig.hand(&[(Flushed, "second")]);
        rig.hand(&[(Flushed, "third"), (AfterFlushes, "claim of the third")]);
        assert!(rig.is_silent());
        rig.end.send(Ok(())).expect("a flush");
        assert_eq!(rig.hear(2), [("event", true), ("claim", true)]);
        rig.begun.recv().expect("a flush");
        assert!(rig.is_silent());
        rig.end.send(Ok(())).expect("a flush");
        assert_eq!(rig.hear(3), [("second", true), ("third", true), ("claim of the third", true)]);
        // Nothing is left that must be flushed.
        rig.hand(&[(AfterFlushes, "claim alone")]);
        rig.hand_unchanged("results of nothing");
        assert_eq!(rig.hear(2), [("claim alone", true), ("results of nothing", true)]);
        assert!(rig.begun.try_recv().is_err());
    }

    #[test]
    fn after_a_failed_flush_nobody_is_told_that_it_is_done_until_it_was_mended() {
        let rig = rig();
        rig.hand(&[(Flushed, "first")]);
        rig.end.send(Err(io::Error::other("the disk is gone"))).expect("a flush");
        assert_eq!(rig.hear(1), [("first", false)]);
        assert!(rig.flusher.is_broken());
        rig.hand(&[(AfterFlushes, "claim")]);
        rig.hand(&[(Flushed, "second")]);
        assert_eq!(rig.hear(2), [("claim", false), ("second", false)]);
        rig.flusher.mended();
        rig.end.send(Ok(())).expect("a flush");
        rig.hand(&[(Flushed, "third")]);
        assert_eq!(rig.hear(1), [("third", true)]);
    }

    #[test]
    fn whoever_waits_is_told_before_it_ends() {
        let rig = rig();
        rig.hand(&[(Flushed, "last")]);
        rig.end.send(Ok(())).expect("a flush");
        drop(rig.flusher);
        assert_eq!(rig.heard.try_recv().expect("it was told"), ("last", true));
    }
}
