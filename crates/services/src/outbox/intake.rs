//! Takes orders from callers (the API) in batches and tells each what became of his; wakes the outbox
//! worker. Nobody is told that an order was accepted before it and its ledger entry are durable.

use crate::batcher::{BatchHandler, Failed};
use crate::metrics::Metrics;
use crate::wake::WakeUps;
use posthaste_core::Timestamp;
use posthaste_core::order::Order;
use posthaste_core::ports::{OutboxIntakeStore, Stage, Submission};
use std::time::Duration;

pub const SERVICE: &str = "intake";

/// The most orders of one batch, and the most that wait.
pub const BATCH_MAX: usize = 200;
pub const WAITING_MAX: usize = 2_000;

#[derive(Debug)]
pub struct Intake<S> {
    store: S,
    ledger_ttl: Duration,
    wake_ups: WakeUps,
    metrics: Metrics,
}

impl<S: OutboxIntakeStore> Intake<S> {
    /// A key is remembered for `ledger_ttl` at least.
    pub const fn new(store: S, ledger_ttl: Duration, wake_ups: WakeUps, metrics: Metrics) -> Self {
        Self { store, ledger_ttl, wake_ups, metrics }
    }
}

impl<S: OutboxIntakeStore> BatchHandler for Intake<S> {
    type Input = Order;
    type Output = Submission;

    /// A batch that failed is told to its callers: their keys make it safe to come again.
    async fn handle(&mut self, orders: Vec<Order>, now: Timestamp) -> Result<Vec<Submission>, Failed<Order>> {
        self.metrics.batch(SERVICE, orders.len());
        match self.store.submit_orders(orders, self.ledger_ttl, now).await {
            Ok(submissions) => {
                if submissions.iter().any(|one| matches!(one, Submission::New(_))) {
                    self.wake_ups.wake(Stage::Outbox);
                }
                Ok(submissions)
            }
            Err(error) => Err(Failed { error, again: None }),
        }
    }
}
