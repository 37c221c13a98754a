//! Writes the broker's responses to the store, in batches. A settlement is retried while the store is
//! unavailable; its order occupies a slot until the settlement is written.

use crate::batcher::{BatchHandler, Failed};
use crate::metrics::Metrics;
use posthaste_core::Timestamp;
use posthaste_core::ports::{OrderReport, OutboxWorkerStore, Settled};
use posthaste_core::retry::OrderRetryPolicy;

pub const SERVICE: &str = "settlements";

#[derive(Debug)]
pub struct Settlements<S> {
    store: S,
    policy: OrderRetryPolicy,
    metrics: Metrics,
}

impl<S: OutboxWorkerStore> Settlements<S> {
    pub const fn new(store: S, policy: OrderRetryPolicy, metrics: Metrics) -> Self {
        Self { store, policy, metrics }
    }
}

impl<S: OutboxWorkerStore> BatchHandler for Settlements<S> {
    type Input = OrderReport;
    type Output = Settled;

    async fn handle(
        &mut self,
        reports: Vec<OrderReport>,
        now: Timestamp,
    ) -> Result<Vec<Settled>, Failed<OrderReport>> {
        self.metrics.batch(SERVICE, reports.len());
        let answers = self.store.settle_orders(reports.clone(), self.policy, now).await;
        // Orders whose settlements are not retried are reclaimed after the stuck threshold.
        answers.map_err(|error| Failed::repeated(error, reports))
    }
}
