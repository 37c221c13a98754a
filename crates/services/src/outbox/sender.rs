//! Claims orders, sends them to the broker and reports the outcomes. A claim is limited by the number of free
//! slots and by the lane.
//!
//! A step claims orders and spawns a task for each; it does not wait for the broker. Each task reports
//! through the [`Settlements`](super::Settlements) batcher and frees its slot when the report is accepted or
//! refused.

use super::broker::Broker;
use super::send::{Claimed, OrderTransport};
use super::{Dequeue, Sent};
use crate::batcher::Batcher;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::send_tasks::{SendTasks, Slots};
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use crate::worker::DrawToken;
use posthaste_core::ports::{
    ClaimedOrders, OrderReport, OutboxClaim, OutboxWorkerStore, Settled, StoreResult,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{OrderId, Timestamp, WorkerId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The margin added to the request deadline, within which a probe must be settled. After that, another probe
/// may be sent.
const PROBE_MARGIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct OutboxOptions {
    pub worker_id: WorkerId,
    /// The maximum number of orders in one claim.
    pub batch_size: u32,
    /// The maximum number of concurrent requests.
    pub parallelism: u32,
    pub policy: OrderRetryPolicy,
    /// The age above which a claim counts as stuck.
    pub stuck_threshold: Duration,
}

/// The dependencies of a sender other than its store and its broker.
#[derive(Debug, Clone)]
pub struct OutboxKit {
    pub settlements: Batcher<OrderReport, Settled>,
    pub clock: Clock,
    pub metrics: Metrics,
    /// The wake-up that is notified when a slot that the sender waits for is freed.
    pub wake_up: WakeUp,
}

pub struct OrderSender<S, B> {
    store: S,
    options: OutboxOptions,
    draw_token: DrawToken,
    transport: Arc<OrderTransport<S, B>>,
    metrics: Metrics,
    slots: Slots,
    sends: SendTasks<OrderId>,
    /// A claim whose outcome is unknown, and its time. It may have claimed orders, so it is retried with the
    /// same token before any new claim; otherwise the orders would remain claimed until they count as stuck.
    unanswered: Option<(OutboxClaim, Timestamp)>,
    /// Whether the last claim emptied the queue.
    queue_was_empty: bool,
}

impl<S, B> fmt::Debug for OrderSender<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderSender").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<S: OutboxWorkerStore + Clone, B: Broker> OrderSender<S, B> {
    pub fn new(store: S, broker: B, options: OutboxOptions, kit: OutboxKit, draw_token: DrawToken) -> Self {
        let slots = Slots::new(options.parallelism, 1, kit.wake_up.clone());
        let metrics = kit.metrics.clone();
        let transport = Arc::new(OrderTransport::new(store.clone(), broker, kit, &options));
        Self {
            store,
            options,
            draw_token,
            transport,
            metrics,
            slots,
            sends: SendTasks::new(|order_id| {
                tracing::error!(%order_id, "send panicked, order is taken back after the stuck threshold");
            }),
            unanswered: None,
            queue_was_empty: false,
        }
    }

    /// Waits until every request in flight has finished and its order is settled.
    pub async fn settle(&mut self) {
        self.sends.settle().await;
    }

    /// Returns whether the queue was empty and still is. Avoids a claim on an idle system, because a claim
    /// locks the lane.
    async fn is_idle(&self) -> StoreResult<bool> {
        let is_known = self.queue_was_empty && self.unanswered.is_none();
        Ok(is_known && !self.store.next_orders_at().await?.has_queued)
    }

    async fn claim(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let asked = self.slots.free().min(self.options.batch_size);
        if asked == 0 {
            return Ok(Progress::Idle);
        }
        let (claim, claimed_at) = self.unanswered.take().unwrap_or_else(|| (self.new_claim(asked), now));
        let (asked, token, again) = (claim.orders_max, claim.token, claim.again);
        self.slots.set_awaited(false);
        let claimed = match self.store.claim_orders(claim.clone(), claimed_at).await {
            Ok(claimed) => claimed,
            Err(error) => {
                self.unanswered = Some((OutboxClaim { again: true, ..claim }, claimed_at));
                return Err(error);
            }
        };
        self.record_claim(&claimed);
        let taken = u32::try_from(claimed.orders.len() + claimed.set_aside.len()).unwrap_or(u32::MAX);
        let next_at = claimed.lane.next_claim_at(now);
        let may_be_more = again || taken == asked;
        self.queue_was_empty = !may_be_more && !claimed.held && next_at.is_none();
        // A freed slot also means that the broker has responded, so the lane may allow more claims.
        self.slots.set_awaited(may_be_more || claimed.lane.is_holding());
        let was_set_aside = !claimed.set_aside.is_empty();
        for order in claimed.orders {
            self.start(Claimed { order, token, probe: claimed.probe });
        }
        let has_room = self.slots.free() > 0;
        Ok(if next_at.is_none() && has_room && (may_be_more || was_set_aside) {
            Progress::More
        } else if may_be_more && !has_room {
            Progress::Idle
        } else {
            next_at.map_or(Progress::Idle, Progress::IdleUntil)
        })
    }

    fn new_claim(&self, orders_max: u32) -> OutboxClaim {
        OutboxClaim {
            worker_id: self.options.worker_id.clone(),
            token: (self.draw_token)(),
            orders_max,
            probe_for: self.transport.deadline().saturating_add(PROBE_MARGIN),
            again: false,
        }
    }

    fn start(&mut self, claimed: Claimed) {
        let Some(slot) = self.slots.acquire() else { return };
        let transport = Arc::clone(&self.transport);
        self.sends.spawn(claimed.order.id, async move {
            let _slot = slot;
            transport.send(claimed).await;
        });
    }

    fn record_claim(&self, claimed: &ClaimedOrders) {
        self.count(match (claimed.held, claimed.orders.is_empty() && claimed.set_aside.is_empty()) {
            (true, _) => Dequeue::HELD,
            (false, true) => Dequeue::EMPTY,
            (false, false) => Dequeue::CLAIMED,
        });
        for order in &claimed.set_aside {
            self.metrics.outbox.ended(Sent::DEAD, order);
            let (order_id, key) = (order.id, order.idempotency_key.as_str());
            tracing::error!(
                %order_id, idempotency_key = key,

                "stored order does not match its digest or is nested too deep, order dead and not sent: it was \
                 changed outside Posthaste. Check its audit and who may write to the database"
            );
        }
    }

    fn count(&self, dequeue: Dequeue) {
        self.metrics.outbox.dequeue.get_or_create(&dequeue).inc();
    }
}

impl<S: OutboxWorkerStore + Clone, B: Broker> Step for OrderSender<S, B> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.sends.reap();
        if self.is_idle().await? {
            self.count(Dequeue::EMPTY);
            return Ok(Progress::Idle);
        }
        self.claim(now).await
    }

    /// Waits for the requests in flight. An order whose request does not finish in time may have been
    /// executed, so it stays claimed until the stuck threshold.
    async fn drain(&mut self, _clock: &Clock, patience: Duration) {
        let worker_id = self.options.worker_id.as_str();
        for order_id in self.sends.drain(patience).await {
            tracing::warn!(
                %order_id, worker_id,
                "shutting down before the broker responded, order is taken back after the stuck threshold"
            );
        }
    }
}
