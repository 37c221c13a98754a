//! Submits events at a steady rate and records the acknowledged ones. Each event has an external id and is
//! resubmitted until it is acknowledged.

use crate::fixtures::{id_of, named_event, stored};
use crate::random::Random;
use posthaste_core::Timestamp;
use posthaste_core::ports::{IngestStore as _, Ingested, RequestOutcome, StoreError, Stores as _};
use posthaste_store::postgres::PostgresStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// The interval between submissions, and between retries of a submission.
const PACE: Duration = Duration::from_millis(50);
/// The time without an acknowledgement after which the run fails.
const PATIENCE: Duration = Duration::from_secs(900);

/// The acknowledged events.
#[derive(Debug, Default)]
pub struct Accepted {
    /// The id and type of each event.
    pub events: Vec<(i64, String)>,
    /// The number of submissions that failed or had an unknown outcome, and were retried.
    pub repeated: usize,
    /// The number of events that were stored by a submission with an unknown outcome.
    pub were_stored: usize,
}

#[derive(Debug)]
pub struct Acceptor {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    task: JoinHandle<Accepted>,
}

impl Acceptor {
    /// Starts submitting events with types drawn from `kinds`, until [`end`](Self::end) is called.
    pub fn start(store: PostgresStore, kinds: &[&str], seed: u64, events_per_second: usize) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let batch = (events_per_second * PACE.as_millis() as usize).div_ceil(1000).max(1);
        let accepting = Accepting {
            store,
            kinds,
            random: Random::new(seed),
            batch,
            acknowledged: Arc::clone(&acknowledged),
            accepted: Accepted::default(),
        };
        let task = tokio::spawn(accepting.run(Arc::clone(&stop)));
        Self { stop, acknowledged, task }
    }

    /// Returns the number of events acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Stops after the current submission is acknowledged, so that no outcome is unknown. Returns the acknowledged
    /// events.
    pub async fn end(self) -> Accepted {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("the acceptor")
    }
}

struct Accepting {
    store: PostgresStore,
    kinds: Vec<String>,
    random: Random,
    batch: usize,
    acknowledged: Arc<AtomicUsize>,
    accepted: Accepted,
}

impl Accepting {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Accepted {
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.load(Ordering::Relaxed) {
            pace.tick().await;
            self.submit().await;
        }
        self.accepted
    }

    /// Submits a request with several events until it is acknowledged.
    async fn submit(&mut self) {
        let known = self.accepted.events.len();
        let (mut kinds, mut request) = (Vec::new(), Vec::new());
        for number in known..known + self.batch {
            let kind = &self.kinds[self.random.below(self.kinds.len() as u64) as usize];
            request.push(named_event(kind, &format!("event-{number}")));
            kinds.push(kind.clone());
        }
        let until = Instant::now() + PATIENCE;
        let ids = loop {
            match self.insert(request.clone()).await {
                Ok(Some(ids)) => break ids,
                Ok(None) | Err(StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. }) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => panic!("{error:?}"),
            }
            self.accepted.repeated += 1;
            assert!(Instant::now() < until, "the store does not accept events");
            tokio::time::sleep(PACE).await;
        };
        self.accepted.events.extend(ids.into_iter().zip(kinds));
        self.acknowledged.store(self.accepted.events.len(), Ordering::Relaxed);
    }

    /// Inserts the events and returns their ids, or `None` if the request was blocked.
    async fn insert(
        &mut self,
        request: Vec<posthaste_core::event::NewEvent>,
    ) -> Result<Option<Vec<i64>>, StoreError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let now = Timestamp::from_micros(0).after(now);
        let outcomes = self.store.ingest().insert_events(vec![request], now).await?;
        if matches!(outcomes[..], [RequestOutcome::Blocked]) {
            return Ok(None);
        }
        let events = stored(&outcomes[0]);
        let is_known = |event: &&Ingested| matches!(event, Ingested::Duplicate(_));
        self.accepted.were_stored += events.iter().filter(is_known).count();
        Ok(Some(events.iter().map(|event| id_of(*event).get()).collect()))
    }
}
