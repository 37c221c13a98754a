//! How stages wake each other: in process directly, in other processes by a word through the database.
//! A bell that rings for nothing, or does not ring, costs time and nothing else.

use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{AnnounceStore, ListenStore, Stage, StoreResult};
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
    /// Words for other processes that have not been said yet; nothing where nobody could hear them.
    unsaid: Option<Mutex<Vec<Stage>>>,
    announcer: Bell,
}

impl Wakes {
    /// For the only process on a store.
    pub fn alone() -> Self {
        Self::new(Stage::ALL.to_vec(), None)
    }

    /// For one process of several, which runs the stages `here`.
    pub fn among_others(here: Vec<Stage>) -> Self {
        Self::new(here, Some(Mutex::default()))
    }

    fn new(here: Vec<Stage>, unsaid: Option<Mutex<Vec<Stage>>>) -> Self {
        let bells = std::array::from_fn(|_| Bell::default());
        Self(Arc::new(Inner { bells, here, unsaid, announcer: Bell::default() }))
    }

    pub fn bell(&self, stage: Stage) -> Bell {
        self.bell_ref(stage).clone()
    }

    /// There is something to do for a stage, wherever it runs.
    pub fn wake(&self, stage: Stage) {
        if self.0.here.contains(&stage) {
            self.bell_ref(stage).ring();
        } else if let Some(unsaid) = &self.0.unsaid {
            let mut unsaid = unsaid.lock().unwrap_or_else(PoisonError::into_inner);
            if !unsaid.contains(&stage) {
                unsaid.push(stage);
                self.0.announcer.ring();
            }
        }
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

    fn take_unsaid(&self) -> Vec<Stage> {
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
        let stages = self.wakes.take_unsaid();
        if stages.is_empty() {
            return Ok(Progress::Unasked);
        }
        if let Err(error) = self.store.announce(stages.clone()).await {
            stages.into_iter().for_each(|stage| self.wakes.wake(stage));
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
            for stage in heard? {
                self.wakes.bell_ref(stage).ring();
            }
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
            async fn announce(&self, _stages: Vec<Stage>) -> StoreResult<()> {
                Err(StoreError::Unavailable { doing: "announcing", source: "no".into() })
            }
        }
        let wakes = Wakes::among_others(Vec::new());
        wakes.wake(Stage::Delivery);
        let mut announcer = Announcer::new(Away, wakes.clone());
        assert!(announcer.step(Timestamp::from_micros(0)).await.is_err());
        assert_eq!(wakes.take_unsaid(), [Stage::Delivery]);
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
        assert_eq!(wakes.take_unsaid(), [Stage::Results, Stage::Delivery]);
        assert!(!rung(&wakes, Stage::Results) && wakes.take_unsaid().is_empty());
        let alone = Wakes::alone();
        Stage::ALL.into_iter().for_each(|stage| alone.wake(stage));
        assert!(Stage::ALL.into_iter().all(|stage| rung(&alone, stage)) && alone.take_unsaid().is_empty());
    }
}
