//! How stages wake each other: in process directly, in other processes by a word through the database.
//! A bell that rings for nothing, or does not ring, costs time and nothing else.

use crate::step::{Progress, Step};
use posthaste_core::ports::{AnnounceStore, Announcement, DueSince, ListenStore, Stage, StoreResult};
use posthaste_core::{JobId, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// What a service waits on between two steps. A ring while it works is kept for afterwards.
#[derive(Debug, Clone, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    pub fn ring(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.0.notified().await;
    }
}

/// The bells of all stages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Wakes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bells: [Bell; Stage::ALL.len()],
    /// The stages that this process runs. It sees to those by itself, so nobody else is told.
    here: Vec<Stage>,
    /// What other processes have to be notified of; `None` where there are no others.
    unsaid: Option<Mutex<Announcement>>,
    announcer: Bell,
    /// The smallest job that finished since the results stage last read; [`NO_JOB`] for none.
    lowest_finished: AtomicI64,
    /// Since when subscriptions have due sagas, as the router reported since admission last asked.
    due: Mutex<HashMap<SubscriptionId, Timestamp>>,
}

const NO_JOB: i64 = i64::MAX;
/// Beyond this many, due subscriptions are left for admission to find in the store.
const DUE_MAX: usize = 10_000;

impl Wakes {
    /// For the only process on a store.
    pub fn alone() -> Self {
        Self::new(Stage::ALL.to_vec(), None)
    }

    /// For one process of several, which runs the stages `here`.
    pub fn among_others(here: Vec<Stage>) -> Self {
        Self::new(here, Some(Mutex::default()))
    }

    fn new(here: Vec<Stage>, unsaid: Option<Mutex<Announcement>>) -> Self {
        let bells = std::array::from_fn(|_| Bell::default());
        let lowest_finished = AtomicI64::new(NO_JOB);
        let (announcer, due) = (Bell::default(), Mutex::default());
        Self(Arc::new(Inner { bells, here, unsaid, announcer, lowest_finished, due }))
    }

    pub fn bell(&self, stage: Stage) -> Bell {
        self.bell_ref(stage).clone()
    }

    /// There is something to do for a stage, wherever it runs.
    pub fn wake(&self, stage: Stage) {
        self.deliver(Announcement { stages: [stage].into(), lowest_finished: None });
    }

    /// Wakes the results stage, which then reads from the smallest of the jobs that finished.
    pub fn wake_results(&self, finished: impl IntoIterator<Item = JobId>) {
        let lowest_finished = finished.into_iter().min();
        self.deliver(Announcement { stages: [Stage::Results].into(), lowest_finished });
    }

    /// Wakes admission, which then need not look for these subscriptions if it runs here.
    pub fn wake_admission(&self, due: impl IntoIterator<Item = DueSince>) {
        if self.0.here.contains(&Stage::Admission) {
            let mut known = self.0.due.lock().unwrap_or_else(PoisonError::into_inner);
            for DueSince { subscription_id, since } in due.into_iter().take(DUE_MAX) {
                if known.len() < DUE_MAX {
                    known.entry(subscription_id).and_modify(|at| *at = since.min(*at)).or_insert(since);
                }
            }
        }
        self.wake(Stage::Admission);
    }

    /// Returns the subscriptions that the router reported since the last call.
    pub(crate) fn take_due(&self) -> Vec<DueSince> {
        let due = std::mem::take(&mut *self.0.due.lock().unwrap_or_else(PoisonError::into_inner));
        due.into_iter().map(|(subscription_id, since)| DueSince { subscription_id, since }).collect()
    }

    /// Wakes the stages that run here, and leaves the others for the announcer.
    fn deliver(&self, announcement: Announcement) {
        let is_here = announcement.stages.iter().all(|stage| self.0.here.contains(stage));
        if is_here {
            self.ring(&announcement);
        } else if let Some(unsaid) = &self.0.unsaid {
            let mut unsaid = unsaid.lock().unwrap_or_else(PoisonError::into_inner);
            unsaid.merge(announcement);
            self.0.announcer.ring();
        }
    }

    fn ring(&self, announcement: &Announcement) {
        if let Some(job) = announcement.lowest_finished {
            self.0.lowest_finished.fetch_min(job.get(), Ordering::Relaxed);
        }
        announcement.stages.iter().for_each(|stage| self.bell_ref(*stage).ring());
    }

    /// Returns the smallest job that finished since the last call, as far as this process was notified.
    pub(crate) fn take_lowest_finished(&self) -> Option<JobId> {
        let job = self.0.lowest_finished.swap(NO_JOB, Ordering::Relaxed);
        (job != NO_JOB).then(|| JobId::from_store(job))
    }

    fn bell_ref(&self, stage: Stage) -> &Bell {
        let [routing, admission, delivery, results, outbox] = &self.0.bells;
        match stage {
            Stage::Routing => routing,
            Stage::Admission => admission,
            Stage::Delivery => delivery,
            Stage::Results => results,
            Stage::Outbox => outbox,
        }
    }

    fn take_unsaid(&self) -> Announcement {
        let take =
            |unsaid: &Mutex<_>| std::mem::take(&mut *unsaid.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.unsaid.as_ref().map(take).unwrap_or_default()
    }
}

/// Says to other processes what waits to be said. Run at a pace: saying it takes a lock on the whole
/// database for a moment.
#[derive(Debug)]
pub struct Announcer<S> {
    store: S,
    wakes: Wakes,
}

impl<S: AnnounceStore> Announcer<S> {
    pub const fn new(store: S, wakes: Wakes) -> Self {
        Self { store, wakes }
    }

    /// What rings when there is something to say.
    pub fn bell(&self) -> Bell {
        self.wakes.0.announcer.clone()
    }
}

impl<S: AnnounceStore> Step for Announcer<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let announcement = self.wakes.take_unsaid();
        if announcement.is_empty() {
            return Ok(Progress::Unasked);
        }
        if let Err(error) = self.store.announce(announcement.clone()).await {
            self.wakes.deliver(announcement);
            return Err(error);
        }
        Ok(Progress::Idle)
    }
}

/// Rings the bells that other processes ask for.
#[derive(Debug)]
pub struct Listener<S> {
    store: S,
    wakes: Wakes,
}

/// How long one step listens, so that the runner has a word in between.
const LISTEN_MAX: Duration = Duration::from_millis(500);

impl<S: ListenStore> Listener<S> {
    pub const fn new(store: S, wakes: Wakes) -> Self {
        Self { store, wakes }
    }
}

impl<S: ListenStore> Step for Listener<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        if let Ok(heard) = tokio::time::timeout(LISTEN_MAX, self.store.next_announcements()).await {
            self.wakes.ring(&heard?);
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::ports::StoreError;
    use std::task::Poll;

    fn rung(wakes: &Wakes, stage: Stage) -> bool {
        let bell = wakes.bell(stage);
        let wait = std::pin::pin!(bell.rung());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        wait.poll(&mut context) == Poll::Ready(())
    }

    #[tokio::test]
    async fn what_could_not_be_said_is_said_later() {
        struct Away;
        impl AnnounceStore for Away {
            async fn announce(&self, _announcement: Announcement) -> StoreResult<()> {
                Err(StoreError::Unavailable { doing: "announcing", source: "no".into() })
            }
        }
        let wakes = Wakes::among_others(Vec::new());
        wakes.wake(Stage::Delivery);
        let mut announcer = Announcer::new(Away, wakes.clone());
        assert!(announcer.step(Timestamp::from_micros(0)).await.is_err());
        assert_eq!(wakes.take_unsaid().stages, [Stage::Delivery].into());
        assert_eq!(
            announcer.step(Timestamp::from_micros(0)).await.expect("nothing to say"),
            Progress::Unasked
        );
    }

    #[test]
    fn a_stage_that_runs_here_is_rung_and_nobody_else_is_told() {
        let wakes = Wakes::among_others(vec![Stage::Routing]);
        wakes.wake(Stage::Routing);
        assert!(rung(&wakes, Stage::Routing) && !rung(&wakes, Stage::Routing), "once");
        assert!(wakes.take_unsaid().is_empty());
    }

    #[test]
    fn a_stage_that_runs_elsewhere_is_named_once() {
        let wakes = Wakes::among_others(vec![Stage::Routing]);
        for stage in [Stage::Results, Stage::Delivery, Stage::Results] {
            wakes.wake(stage);
        }
        assert_eq!(wakes.take_unsaid().stages, [Stage::Results, Stage::Delivery].into());
        assert!(!rung(&wakes, Stage::Results) && wakes.take_unsaid().is_empty());
        wakes.wake_results([7, 3, 9].map(JobId::from_store));
        wakes.wake_results([5].map(JobId::from_store));
        assert_eq!(wakes.take_unsaid().lowest_finished, Some(JobId::from_store(3)));
        let alone = Wakes::alone();
        alone.wake_results([7, 3].map(JobId::from_store));
        assert_eq!(alone.take_lowest_finished(), Some(JobId::from_store(3)));
        assert_eq!(alone.take_lowest_finished(), None);
        Stage::ALL.into_iter().for_each(|stage| alone.wake(stage));
        assert!(Stage::ALL.into_iter().all(|stage| rung(&alone, stage)) && alone.take_unsaid().is_empty());
    }
}
