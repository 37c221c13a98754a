//! Reclaims orders whose sender never reported an outcome, and wakes the [`OrderSender`](super::OrderSender).
//! The counterpart of the [`Cleaner`](crate::cleaner::Cleaner) for orders.

use super::{MOVED_MAX, Sent};
use crate::grace::{self, Grace};
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use posthaste_core::Timestamp;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{OrderRecord, OutboxWorkerStore, StoreResult};
use posthaste_core::retry::OrderRetryPolicy;
use std::time::Duration;

/// The interval between checks for stuck orders. A request ends 5 s before its order counts as stuck. An
/// outage that delays a settlement for longer therefore coincides with a check, which starts the grace
/// period.
pub const REWIND_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct OrderJanitor<S> {
    store: S,
    /// The age above which a claim counts as stuck.
    stuck_threshold: Duration,
    policy: OrderRetryPolicy,
    metrics: Metrics,
    /// The wake-up that notifies the sender.
    sender: WakeUp,
    grace: Grace,
}

impl<S: OutboxWorkerStore> OrderJanitor<S> {
    pub const fn new(
        store: S,
        stuck_threshold: Duration,
        policy: OrderRetryPolicy,
        metrics: Metrics,
        sender: WakeUp,
    ) -> Self {
        Self { store, stuck_threshold, policy, metrics, sender, grace: Grace::None }
    }

    async fn rewind(&mut self, orders_max: u32, now: Timestamp) -> StoreResult<Vec<OrderRecord>> {
        let result = self.store.rewind_stuck_orders(self.stuck_threshold, orders_max, self.policy, now).await;
        if result.is_err() {
            self.grace.record_outage();
        }
        result
    }
}

impl<S: OutboxWorkerStore> Step for OrderJanitor<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        if self.grace.is_outage() {
            self.rewind(0, now).await?;
            self.grace.start(grace::AFTER_OUTAGE, now);
        }
        if let Some(until) = self.grace.end(now) {
            return Ok(Progress::IdleUntil(until));
        }
        let rewound = self.rewind(MOVED_MAX, now).await?;
        for order in &rewound {
            self.metrics.outbox.rewound.inc();
            if order.status == OrderStatus::Dead {
                self.metrics.outbox.ended(Sent::DEAD, order);
            }
            let (order_id, key) = (order.id, order.idempotency_key.as_str());
            let (status, retry_count) = (order.status.as_str(), order.retry_count);
            tracing::warn!(
                %order_id, idempotency_key = key, trace_id = order.trace_id, status, retry_count,
                "no outcome reported within the threshold, order taken back; it may have been executed"
            );
        }
        if rewound.is_empty() {
            return Ok(Progress::Idle);
        }
        self.sender.notify();
        Ok(Progress::More)
    }
}
