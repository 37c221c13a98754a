//! Queues failed orders again when they are due, and wakes the [`OrderSender`](super::OrderSender).

use super::{MOVED_MAX, Sent};
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use posthaste_core::Timestamp;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{OutboxWorkerStore, StoreResult};
use posthaste_core::retry::OrderRetryPolicy;
use std::time::Duration;

/// The interval between lookups of the next failed order. The shortest backoff is longer, so every order is
/// known before it is due.
pub const REQUEUE_EVERY: Duration = Duration::from_secs(1);
/// The delay before the next step if another process holds locks on due orders to requeue them.
const SHORTLY: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct OrderRequeue<S> {
    pub store: S,
    pub policy: OrderRetryPolicy,
    pub metrics: Metrics,
    /// The wake-up that notifies the sender.
    pub sender: WakeUp,
}

impl<S: OutboxWorkerStore> Step for OrderRequeue<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        // The read comes first, so that an idle lane causes no writes.
        match self.store.next_orders_at().await?.failed_at {
            None => return Ok(Progress::Idle),
            Some(at) if at > now => return Ok(Progress::IdleUntil(at)),
            Some(_) => {}
        }
        let moved = self.store.requeue_due_orders(MOVED_MAX, self.policy, now).await?;
        if moved.is_empty() {
            return Ok(Progress::IdleUntil(now.after(SHORTLY)));
        }
        let dead = moved.iter().filter(|order| order.status == OrderStatus::Dead);
        dead.for_each(|order| self.metrics.outbox.ended(Sent::DEAD, order));
        self.sender.notify();
        Ok(Progress::More)
    }
}
