//! Wake-ups between stages: directly within a process, and through the database to other processes. A
//! spurious or missing wake-up affects only latency.

use crate::step::{Progress, Step};
use posthaste_core::ports::{AnnounceStore, Announcement, DueSince, ListenStore, Stage, StoreResult};
use posthaste_core::{JobId, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The notification that a service waits for between steps. A notification that arrives during a step is
/// kept.
#[derive(Debug, Clone, Default)]
pub struct WakeUp(Arc<Notify>);

impl WakeUp {
    pub fn notify(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn notified(&self) {
        self.0.notified().await;
    }
}

/// The wake-ups of all stages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WakeUps(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    wake_ups: [WakeUp; Stage::ALL.len()],
    /// The stages that this process runs. They are notified directly, without an announcement to other
    /// processes.
    local_stages: Vec<Stage>,
    /// The pending announcement to other processes, or `None` if this is the only process.
    pending: Option<Mutex<Announcement>>,
    announcer: WakeUp,
    /// The smallest id of the jobs that finished since the results stage last read it, or [`NO_JOB`].
    lowest_finished: AtomicI64,
    /// The subscriptions that the router reported since admission last read them, each with the time since
    /// which it has had due sagas.
    due: Mutex<HashMap<SubscriptionId, Timestamp>>,
}

const NO_JOB: i64 = i64::MAX;
/// The maximum number of reported subscriptions. Admission finds any others in the store.
const DUE_MAX: usize = 10_000;

impl WakeUps {
    /// Creates the wake-ups for the only process that uses the store.
    pub fn alone() -> Self {
        Self::new(Stage::ALL.to_vec(), None)
    }

    /// Creates the wake-ups for one of several processes, which runs the stages `local_stages`.
    pub fn among_others(local_stages: Vec<Stage>) -> Self {
        Self::new(local_stages, Some(Mutex::default()))
    }

    fn new(local_stages: Vec<Stage>, pending: Option<Mutex<Announcement>>) -> Self {
        let wake_ups = std::array::from_fn(|_| WakeUp::default());
        let lowest_finished = AtomicI64::new(NO_JOB);
        let (announcer, due) = (WakeUp::default(), Mutex::default());
        Self(Arc::new(Inner { wake_ups, local_stages, pending, announcer, lowest_finished, due }))
    }

    pub fn wake_up(&self, stage: Stage) -> WakeUp {
        self.wake_up_ref(stage).clone()
    }

    /// Notifies a stage that there is work, regardless of the process that runs it.
    pub fn wake(&self, stage: Stage) {
        self.deliver(Announcement { stages: [stage].into(), lowest_finished: None });
    }

    /// Wakes the results stage and passes it the smallest of the finished job ids, from which it then reads.
    pub fn wake_results(&self, finished: impl IntoIterator<Item = JobId>) {
        let lowest_finished = finished.into_iter().min();
        self.deliver(Announcement { stages: [Stage::Results].into(), lowest_finished });
    }

    /// Wakes admission and, if it runs in this process, passes it the due subscriptions.
    pub fn wake_admission(&self, due: impl IntoIterator<Item = DueSince>) {
        if self.0.local_stages.contains(&Stage::Admission) {
            let mut known = self.0.due.lock().unwrap_or_else(PoisonError::into_inner);
            for DueSince { subscription_id, since } in due.into_iter().take(DUE_MAX) {
                if known.len() < DUE_MAX {
                    known.entry(subscription_id).and_modify(|at| *at = since.min(*at)).or_insert(since);
                }
            }
        }
        self.wake(Stage::Admission);
    }

    /// Returns and removes the subscriptions that the router reported since the last call.
    pub(crate) fn take_due(&self) -> Vec<DueSince> {
        let due = std::mem::take(&mut *self.0.due.lock().unwrap_or_else(PoisonError::into_inner));
        due.into_iter().map(|(subscription_id, since)| DueSince { subscription_id, since }).collect()
    }

    /// Notifies the stages directly if all of them run in this process. Otherwise queues the announcement.
    fn deliver(&self, announcement: Announcement) {
        let is_here = announcement.stages.iter().all(|stage| self.0.local_stages.contains(stage));
        if is_here {
            self.notify_local(&announcement);
        } else if let Some(pending) = &self.0.pending {
            let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.merge(announcement);
            self.0.announcer.notify();
        }
    }

    fn notify_local(&self, announcement: &Announcement) {
        if let Some(job) = announcement.lowest_finished {
            self.0.lowest_finished.fetch_min(job.get(), Ordering::Relaxed);
        }
        announcement.stages.iter().for_each(|stage| self.wake_up_ref(*stage).notify());
    }

    /// Returns and resets the smallest id of the jobs that finished since the last call, or `None` if there
    /// was none.
    pub(crate) fn take_lowest_finished(&self) -> Option<JobId> {
        let job = self.0.lowest_finished.swap(NO_JOB, Ordering::Relaxed);
        (job != NO_JOB).then(|| JobId::from_store(job))
    }

    fn wake_up_ref(&self, stage: Stage) -> &WakeUp {
        let [routing, admission, delivery, results, outbox] = &self.0.wake_ups;
        match stage {
            Stage::Routing => routing,
            Stage::Admission => admission,
            Stage::Delivery => delivery,
            Stage::Results => results,
            Stage::Outbox => outbox,
        }
    }

    fn take_pending(&self) -> Announcement {
        let take =
            |pending: &Mutex<_>| std::mem::take(&mut *pending.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.pending.as_ref().map(take).unwrap_or_default()
    }
}

/// A step that announces pending wake-ups to other processes. The rate of its service is limited, because an
/// announcement briefly locks the whole database.
#[derive(Debug)]
pub struct Announcer<S> {
    store: S,
    wake_ups: WakeUps,
}

impl<S: AnnounceStore> Announcer<S> {
    pub const fn new(store: S, wake_ups: WakeUps) -> Self {
        Self { store, wake_ups }
    }

    /// Returns the wake-up that is notified when an announcement is pending.
    pub fn wake_up(&self) -> WakeUp {
        self.wake_ups.0.announcer.clone()
    }
}

impl<S: AnnounceStore> Step for Announcer<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let announcement = self.wake_ups.take_pending();
        if announcement.is_empty() {
            return Ok(Progress::Unasked);
        }
        if let Err(error) = self.store.announce(announcement.clone()).await {
            self.wake_ups.deliver(announcement);
            return Err(error);
        }
        Ok(Progress::Idle)
    }
}

/// A step that notifies local stages of the wake-ups announced by other processes.
#[derive(Debug)]
pub struct Listener<S> {
    store: S,
    wake_ups: WakeUps,
}

/// The maximum time that one step listens. It is short so that the runner can check for a shutdown.
const LISTEN_MAX: Duration = Duration::from_millis(500);

impl<S: ListenStore> Listener<S> {
    pub const fn new(store: S, wake_ups: WakeUps) -> Self {
        Self { store, wake_ups }
    }
}

impl<S: ListenStore> Step for Listener<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        if let Ok(heard) = tokio::time::timeout(LISTEN_MAX, self.store.next_announcements()).await {
            self.wake_ups.notify_local(&heard?);
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::ports::StoreError;
    use std::task::Poll;

    fn is_notified(wake_ups: &WakeUps, stage: Stage) -> bool {
        let wake_up = wake_ups.wake_up(stage);
        let wait = std::pin::pin!(wake_up.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        wait.poll(&mut context) == Poll::Ready(())
    }

    #[tokio::test]
    async fn failed_announcement_stays_pending() {
        struct Unavailable;
        impl AnnounceStore for Unavailable {
            async fn announce(&self, _announcement: Announcement) -> StoreResult<()> {
                Err(StoreError::Unavailable { doing: "announcing", source: "no".into() })
            }
        }
        let wake_ups = WakeUps::among_others(Vec::new());
        wake_ups.wake(Stage::Delivery);
        let mut announcer = Announcer::new(Unavailable, wake_ups.clone());
        assert!(announcer.step(Timestamp::from_micros(0)).await.is_err());
        assert_eq!(wake_ups.take_pending().stages, [Stage::Delivery].into());
        assert_eq!(announcer.step(Timestamp::from_micros(0)).await.expect("a step"), Progress::Unasked);
    }

    #[test]
    fn local_stage_is_notified_and_not_announced() {
        let wake_ups = WakeUps::among_others(vec![Stage::Routing]);
        wake_ups.wake(Stage::Routing);
        assert!(is_notified(&wake_ups, Stage::Routing) && !is_notified(&wake_ups, Stage::Routing), "once");
        assert!(wake_ups.take_pending().is_empty());
    }

    #[test]
    fn remote_stage_is_announced_once() {
        let wake_ups = WakeUps::among_others(vec![Stage::Routing]);
        for stage in [Stage::Results, Stage::Delivery, Stage::Results] {
            wake_ups.wake(stage);
        }
        assert_eq!(wake_ups.take_pending().stages, [Stage::Results, Stage::Delivery].into());
        assert!(!is_notified(&wake_ups, Stage::Results) && wake_ups.take_pending().is_empty());
        wake_ups.wake_results([7, 3, 9].map(JobId::from_store));
        wake_ups.wake_results([5].map(JobId::from_store));
        assert_eq!(wake_ups.take_pending().lowest_finished, Some(JobId::from_store(3)));
        let alone = WakeUps::alone();
        alone.wake_results([7, 3].map(JobId::from_store));
        assert_eq!(alone.take_lowest_finished(), Some(JobId::from_store(3)));
        assert_eq!(alone.take_lowest_finished(), None);
        Stage::ALL.into_iter().for_each(|stage| alone.wake(stage));
        assert!(
            Stage::ALL.into_iter().all(|stage| is_notified(&alone, stage)) && alone.take_pending().is_empty()
        );
    }
}
