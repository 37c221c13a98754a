//! Stores orders from callers (the API) in batches, returns a result to each caller, and wakes the outbox
//! worker. An order is acknowledged only after it and its ledger entry are durable.

use crate::batcher::{BatchHandler, Failed};
use crate::metrics::Metrics;
use crate::wake::WakeUps;
use posthaste_core::Timestamp;
use posthaste_core::order::Order;
use posthaste_core::ports::{OutboxIntakeStore, Stage, Submission};
use std::time::Duration;

pub const SERVICE: &str = "intake";

/// The maximum number of orders in one batch.
pub const BATCH_MAX: usize = 200;
/// The maximum number of orders in the queue.
pub const WAITING_MAX: usize = 2_000;

#[derive(Debug)]
pub struct Intake<S> {
    store: S,
    ledger_ttl: Duration,
    wake_ups: WakeUps,
    metrics: Metrics,
}

impl<S: OutboxIntakeStore> Intake<S> {
    /// Creates a handler that keeps keys in the ledger for at least `ledger_ttl`.
    pub const fn new(store: S, ledger_ttl: Duration, wake_ups: WakeUps, metrics: Metrics) -> Self {
        Self { store, ledger_ttl, wake_ups, metrics }
    }
}

impl<S: OutboxIntakeStore> BatchHandler for Intake<S> {
    type Input = Order;
    type Output = Submission;

    /// Stores a batch of orders. A failed batch is not retried: its callers get the error, and may safely
    /// retry with the same keys.
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
