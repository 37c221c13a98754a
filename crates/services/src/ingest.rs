//! Stores events from callers (the API) in batches, returns a result to each caller, and wakes the router. An
//! event is acknowledged only after it is durable.

use crate::batcher::{BatchHandler, Failed};
use crate::metrics::Metrics;
use crate::wake::WakeUps;
use posthaste_core::Timestamp;
use posthaste_core::ports::{IngestRequest, IngestStore, Ingested, RequestOutcome, Stage};

pub const SERVICE: &str = "ingest";

/// The maximum number of requests in one batch.
pub const BATCH_MAX: usize = 500;
/// The maximum number of requests in the queue.
pub const WAITING_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Ingest<S> {
    store: S,
    wake_ups: WakeUps,
    metrics: Metrics,
}

impl<S: IngestStore> Ingest<S> {
    pub const fn new(store: S, wake_ups: WakeUps, metrics: Metrics) -> Self {
        Self { store, wake_ups, metrics }
    }

    fn count(&self, outcomes: &[RequestOutcome]) {
        let (mut accepted, mut duplicate) = (0, 0);
        for outcome in outcomes {
            match outcome {
                RequestOutcome::Stored(events) => {
                    let new = events.iter().filter(|event| matches!(event, Ingested::New(_))).count();
                    accepted += new;
                    duplicate += events.len() - new;
                }
                RequestOutcome::Blocked | RequestOutcome::Refused(_) | RequestOutcome::Conflict(_) => {}
            }
        }
        self.metrics.events_accepted.inc_by(accepted as u64);
        self.metrics.events_duplicate.inc_by(duplicate as u64);
        if accepted > 0 {
            self.wake_ups.wake(Stage::Routing);
        }
    }
}

impl<S: IngestStore> BatchHandler for Ingest<S> {
    type Input = IngestRequest;
    type Output = RequestOutcome;

    /// Stores a batch of events. A failed batch is not retried: its callers get the error and decide whether
    /// to retry.
    async fn handle(
        &mut self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> Result<Vec<RequestOutcome>, Failed<IngestRequest>> {
        self.metrics.batch(SERVICE, requests.len());
        match self.store.insert_events(requests, now).await {
            Ok(outcomes) => {
                self.count(&outcomes);
                Ok(outcomes)
            }
            Err(error) => Err(Failed { error, again: None }),
        }
    }
}
