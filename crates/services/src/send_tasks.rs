//! The concurrent requests of a worker, for webhooks and for orders. [`Slots`] limits their number and wakes
//! the worker when slots are freed; [`SendTasks`] runs them.

use crate::wake::WakeUp;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};

#[derive(Debug)]
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    freed: Arc<Freed>,
}

/// A counter of the slots freed since the worker began to wait for them.
#[derive(Debug)]
struct Freed {
    is_awaited: AtomicBool,
    count: AtomicU32,
    /// The number of freed slots after which the worker is woken. A larger number keeps its claims large.
    wake_every: u32,
    wake_up: WakeUp,
}

/// One slot. It is freed on drop, even if the task panics.
#[derive(Debug)]
pub(crate) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Freed>,
}

impl Slots {
    pub(crate) fn new(slots_max: u32, wake_every: u32, wake_up: WakeUp) -> Self {
        let (is_awaited, count) = (AtomicBool::new(false), AtomicU32::new(0));
        let freed = Freed { is_awaited, count, wake_every: wake_every.max(1), wake_up };
        Self { permits: Arc::new(Semaphore::new(slots_max as usize)), freed: Arc::new(freed) }
    }

    /// Returns the number of free slots.
    pub(crate) fn free(&self) -> u32 {
        u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX)
    }

    pub(crate) fn acquire(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Slot { permit: Some(permit), freed: Arc::clone(&self.freed) })
    }

    /// Sets whether slots freed from now on wake the worker.
    pub(crate) fn set_awaited(&self, is_awaited: bool) {
        self.freed.count.store(0, Ordering::SeqCst);
        self.freed.is_awaited.store(is_awaited, Ordering::SeqCst);
    }
}

impl Freed {
    /// Counts a freed slot. Returns whether the worker must be woken.
    fn record(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst)
            && (self.count.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(self.wake_every)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.permit.take();
        if self.freed.record() {
            self.freed.wake_up.notify();
        }
    }
}

/// The tasks in flight, each with the item that it sends.
#[derive(Debug)]
pub(crate) struct SendTasks<T> {
    tasks: JoinSet<()>,
    items: HashMap<Id, T>,
    on_panic: fn(&T),
}

impl<T> SendTasks<T> {
    pub(crate) fn new(on_panic: fn(&T)) -> Self {
        Self { tasks: JoinSet::new(), items: HashMap::new(), on_panic }
    }

    pub(crate) fn spawn(&mut self, item: T, send: impl Future<Output = ()> + Send + 'static) {
        // Boxed because tokio moves a future several times, and this one occupies a few thousand bytes.
        let task = self.tasks.spawn(Box::pin(send));
        self.items.insert(task.id(), item);
    }

    /// Removes the tasks that have finished.
    pub(crate) fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.remove(ended);
        }
    }

    /// Waits until every task has finished.
    pub(crate) async fn settle(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.remove(ended);
        }
    }

    /// Waits until every task has finished, for at most `patience`. Then aborts the remaining tasks and
    /// returns their items.
    pub(crate) async fn drain(&mut self, patience: Duration) -> Vec<T> {
        if tokio::time::timeout(patience, self.settle()).await.is_err() {
            self.reap();
            self.tasks.abort_all();
        }
        self.items.drain().map(|(_, item)| item).collect()
    }

    fn remove(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (id, has_panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        if let (Some(item), true) = (self.items.remove(&id), has_panicked) {
            (self.on_panic)(&item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_worker_is_woken_after_each_quarter_of_its_slots() {
        let slots = Slots::new(12, 3, WakeUp::default());
        let wakes_up = |count: u32| (0..count).map(|_| slots.freed.record()).collect::<Vec<_>>();
        assert!(wakes_up(5).iter().all(|wakes_up| !wakes_up), "it does not wait");
        slots.set_awaited(true);
        assert_eq!(wakes_up(6), [false, false, true, false, false, true]);
        wakes_up(2);
        slots.set_awaited(true);
        assert_eq!(wakes_up(3), [false, false, true], "counted from the last wait");
        slots.set_awaited(false);
        assert!(wakes_up(5).iter().all(|wakes_up| !wakes_up));
    }
}
