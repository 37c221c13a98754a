//! Accepts events at a steady rate, as a careful caller does: each has an external id and is submitted
//! again until it is acknowledged. Keeps exactly what was acknowledged.

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

/// The time between two submissions, and between two tries of one.
const PACE: Duration = Duration::from_millis(50);
/// A store that does not take an event for so long will not take it any more.
const PATIENCE: Duration = Duration::from_secs(900);

/// What was acknowledged.
#[derive(Debug, Default)]
pub struct Accepted {
    /// Each event's id and type.
    pub events: Vec<(i64, String)>,
    /// Submissions that failed, or whose outcome nobody knew, and that were made again.
    pub repeated: usize,
    /// Events that a submission of unknown outcome had stored.
    pub were_stored: usize,
}

#[derive(Debug)]
pub struct Acceptor {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    task: JoinHandle<Accepted>,
}

impl Acceptor {
    /// Accepts until it is told to end. The types are drawn from `kinds`.
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

    /// How many events were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Ends once what it has submitted is acknowledged: nothing is left in doubt.
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

    /// One request of several events, until it is acknowledged.
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
            assert!(Instant::now() < until, "the store takes no events any more");
            tokio::time::sleep(PACE).await;
        };
        self.accepted.events.extend(ids.into_iter().zip(kinds));
        self.acknowledged.store(self.accepted.events.len(), Ordering::Relaxed);
    }

    /// The ids of a request that was stored; nothing if somebody stood in its way.
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
