//! Claims orders (stored by the intake), sends them to the broker and settles what came of it. Claims only
//! what it can send at once and what the lane lets through; what becomes of an order, and of the lane, is
//! decided in the core.
//!
//! A step brings back orders that are due again, claims, and starts the sends; it does not wait for the
//! broker. Each send ends with a report through the [`Settlements`] batcher, and frees its slot when that
//! has been answered. Now and then a step also takes back what a sender never reported, and forgets old
//! keys.

mod broker;
mod http;
pub mod intake;
mod lane;
mod meters;
mod retries;
mod send;
mod settlements;

use crate::batcher::Batcher;
use crate::clock::{Clock, is_due};
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use crate::wait_check::WaitCheck;
use crate::wake::Bell;
use crate::worker::DrawToken;
use lane::LaneLog;
use posthaste_core::lane::Lane;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{
    ClaimedOrders, OrderRecord, OrderReport, OutboxClaim, OutboxWorkerStore, Settled, StoreResult,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{OrderId, Timestamp, WorkerId};
use retries::Retries;
use send::{Claimed, Courier};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};

pub use broker::Broker;
pub use http::{HttpBroker, HttpBrokerOptions};
pub use lane::{LaneState, LaneWatch};
pub use meters::{Dequeue, OutboxMeters, Sent};
pub use settlements::{SERVICE as SETTLEMENTS, Settlements};

/// The most orders that one step brings back or takes back.
const MOVED_MAX: u32 = 500;
/// The most keys that one step forgets.
const PURGED_MAX: u32 = 1_000;
/// How often failed orders are looked for that this process did not see fail.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a worker with nothing to claim looks at the lane: the last sends may have changed it.
const LANE_EVERY: Duration = Duration::from_secs(1);
/// How often stuck orders are looked for; the threshold is minutes.
const REWIND_EVERY: Duration = Duration::from_secs(10);
/// How long stuck orders are left alone after the store was away: settlements that waited land first.
const WAIT_AFTER_OUTAGE: Duration = Duration::from_secs(5);
const PURGE_EVERY: Duration = Duration::from_secs(600);
/// The shortest wait for orders that are due and that somebody else is about to bring back.
const SHORTLY: Duration = Duration::from_millis(10);
/// What a probe has beside the exchange to be settled, before another may be sent.
const PROBE_MARGIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct OutboxOptions {
    pub worker_id: WorkerId,
    /// The most orders of one claim.
    pub batch_size: u32,
    /// How many sends may be under way.
    pub parallelism: u32,
    pub policy: OrderRetryPolicy,
    /// The age of a claim from which on nobody waits for its sender any more.
    pub stuck_threshold: Duration,
}

/// What an outbox worker is made of, beside its store and its broker.
#[derive(Debug, Clone)]
pub struct OutboxKit {
    pub settlements: Batcher<OrderReport, Settled>,
    pub clock: Clock,
    pub metrics: Metrics,
    pub lane: LaneState,
    /// Rings when a slot came free that may be wanted.
    pub bell: Bell,
}

pub struct OutboxWorker<S, B> {
    store: S,
    options: OutboxOptions,
    draw_token: DrawToken,
    courier: Arc<Courier<S, B>>,
    metrics: Metrics,
    lane: LaneState,
    lane_log: LaneLog,
    slots: Arc<Semaphore>,
    wanted: Arc<Wanted>,
    retries: Arc<Retries>,
    waits: WaitCheck,
    sends: JoinSet<()>,
    /// The sends under way, by the task that makes them.
    out: HashMap<Id, OrderId>,
    /// A claim that got no answer, and when it was made. It may have taken orders: they are looked for before
    /// any other claim, so that they are sent, or given back, and need not be taken back as stuck.
    unanswered: Option<(OutboxClaim, Timestamp)>,
    /// The last claim got all there was.
    queue_was_empty: bool,
    lane_at: Timestamp,
    look_at: Timestamp,
    rewind_at: Timestamp,
    purge_at: Timestamp,
    /// The store failed, and has not answered since.
    was_away: bool,
}

impl<S, B> fmt::Debug for OutboxWorker<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxWorker").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Whether a slot that comes free, or a broker that answers again, is waited for.
#[derive(Debug)]
struct Wanted {
    waits: AtomicBool,
    bell: Bell,
}

/// One of the senders; free again when it is dropped, also by a panic.
struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    wanted: Arc<Wanted>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.permit.take();
        if self.wanted.waits.load(Ordering::SeqCst) {
            self.wanted.bell.ring();
        }
    }
}

impl<S: OutboxWorkerStore + Clone, B: Broker> OutboxWorker<S, B> {
    pub fn new(store: S, broker: B, options: OutboxOptions, kit: OutboxKit, draw_token: DrawToken) -> Self {
        let waits = WaitCheck::new(kit.clock.clone());
        let retries = Arc::new(Retries::default());
        let (metrics, lane, bell) = (kit.metrics.clone(), kit.lane.clone(), kit.bell.clone());
        let courier = Courier::new(store.clone(), broker, kit, &options, Arc::clone(&retries));
        Self {
            store,
            slots: Arc::new(Semaphore::new(options.parallelism as usize)),
            options,
            draw_token,
            courier: Arc::new(courier),
            metrics,
            lane,
            lane_log: LaneLog::default(),
            wanted: Arc::new(Wanted { waits: AtomicBool::new(false), bell }),
            retries,
            waits,
            sends: JoinSet::new(),
            out: HashMap::new(),
            unanswered: None,
            queue_was_empty: false,
            lane_at: Timestamp::MIN,
            look_at: Timestamp::MIN,
            rewind_at: Timestamp::MIN,
            purge_at: Timestamp::MIN,
            was_away: false,
        }
    }

    /// Waits until every send under way has ended and was settled.
    pub async fn settle(&mut self) {
        while let Some(ended) = self.sends.join_next_with_id().await {
            self.reap(ended);
        }
    }

    fn reap_ended(&mut self) {
        while let Some(ended) = self.sends.try_join_next_with_id() {
            self.reap(ended);
        }
    }

    fn reap(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let order = self.out.remove(&id);
        if let (true, Some(order_id)) = (panicked, order) {
            tracing::error!(%order_id, "a send panicked; the order is taken back after the threshold");
        }
    }

    async fn check_waits(&mut self) -> StoreResult<()> {
        if let Some((page, now)) = self.waits.page() {
            let checked = self.store.restart_waits(page, self.options.policy, now).await?;
            self.waits.record(checked, "orders");
        }
        Ok(())
    }

    async fn turn(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.check_waits().await?;
        let progress = match self.idle_until(now).await? {
            Some(idle) => {
                self.look_at_lane(now).await?;
                idle
            }
            None => {
                self.requeue(now).await?;
                self.claim(now).await?
            }
        };
        if self.was_away {
            self.was_away = false;
            self.rewind_at = now.after(WAIT_AFTER_OUTAGE);
        }
        let rewound = self.rewind(now).await?;
        self.purge(now).await?;
        Ok(if rewound || self.waits.is_running() { Progress::More } else { progress })
    }

    /// How to idle, if the queue was empty and nothing has come due since. It looks before it claims: a claim
    /// locks the lane, and on an idle system all of them would be in vain.
    async fn idle_until(&mut self, now: Timestamp) -> StoreResult<Option<Progress>> {
        if !self.queue_was_empty || self.unanswered.is_some() {
            return Ok(None);
        }
        match self.next_due(now).await? {
            Some(at) if at <= now => Ok(None),
            next_at => {
                self.count(Dequeue::EMPTY);
                Ok(Some(next_at.map_or(Progress::Idle, Progress::IdleUntil)))
            }
        }
    }

    /// When the next order is due, and with it the next retry.
    async fn next_due(&mut self, now: Timestamp) -> StoreResult<Option<Timestamp>> {
        // What fails from here on counts beside the answer.
        self.retries.forget();
        let next = self.store.next_orders_at().await?;
        next.failed_at.into_iter().for_each(|at| self.retries.expect(at));
        Ok(if next.has_queued { Some(now) } else { self.retries.next_at() })
    }

    async fn look_at_lane(&mut self, now: Timestamp) -> StoreResult<()> {
        if is_due(self.lane_at, LANE_EVERY, now) {
            let lane = self.store.load_lane().await?;
            self.saw(lane, now);
        }
        Ok(())
    }

    fn saw(&mut self, lane: Lane, now: Timestamp) {
        self.lane_log.tell(&lane);
        self.lane.show(lane);
        self.lane_at = now.after(LANE_EVERY);
    }

    /// Failed orders whose time has come go back to the queue.
    async fn requeue(&mut self, now: Timestamp) -> StoreResult<()> {
        if !self.retries.are_due(now) && !is_due(self.look_at, LOOK_EVERY, now) {
            return Ok(());
        }
        let moved = self.store.requeue_due_orders(MOVED_MAX, self.options.policy, now).await?;
        moved.iter().filter(|order| order.status == OrderStatus::Dead).for_each(|order| self.given_up(order));
        self.next_due(now).await?;
        self.look_at = now.after(LOOK_EVERY);
        Ok(())
    }

    async fn claim(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
        let asked = free.min(self.options.batch_size);
        if asked == 0 {
            return Ok(Progress::Idle);
        }
        let (claim, claimed_at) = self.unanswered.take().unwrap_or_else(|| (self.new_claim(asked), now));
        let (asked, token, again) = (claim.orders_max, claim.token, claim.again);
        self.wanted.waits.store(false, Ordering::SeqCst);
        let claimed = match self.store.claim_orders(claim.clone(), claimed_at).await {
            Ok(claimed) => claimed,
            Err(error) => {
                self.unanswered = Some((OutboxClaim { again: true, ..claim }, claimed_at));
                return Err(error);
            }
        };
        self.saw(claimed.lane.clone(), now);
        self.tell(&claimed);
        let taken = u32::try_from(claimed.orders.len() + claimed.set_aside.len()).unwrap_or(u32::MAX);
        let next_at = claimed.lane.next_claim_at(now);
        let may_be_more = again || taken == asked;
        self.queue_was_empty = !may_be_more && !claimed.held && next_at.is_none();
        self.wanted.waits.store(may_be_more || claimed.lane.is_holding(), Ordering::SeqCst);
        let was_set_aside = !claimed.set_aside.is_empty();
        for order in claimed.orders {
            self.start(Claimed { order, token, probe: claimed.probe });
        }
        let has_room = self.slots.available_permits() > 0;
        Ok(if next_at.is_none() && has_room && (may_be_more || was_set_aside) {
            Progress::More
        } else if may_be_more && !has_room {
            Progress::Idle
        } else {
            let retry_at = self.retries.next_at().map(|at| at.max(now.after(SHORTLY)));
            let next_at = [next_at, retry_at].into_iter().flatten().min();
            next_at.map_or(Progress::Idle, Progress::IdleUntil)
        })
    }

    fn new_claim(&self, orders_max: u32) -> OutboxClaim {
        OutboxClaim {
            worker_id: self.options.worker_id.clone(),
            token: (self.draw_token)(),
            orders_max,
            probe_for: self.courier.deadline().saturating_add(PROBE_MARGIN),
            again: false,
        }
    }

    fn start(&mut self, claimed: Claimed) {
        let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() else { return };
        let slot = Slot { permit: Some(permit), wanted: Arc::clone(&self.wanted) };
        let (courier, order_id) = (Arc::clone(&self.courier), claimed.order.id);
        let send = async move {
            let _slot = slot;
            courier.carry(claimed).await;
        };
        let task = self.sends.spawn(send);
        self.out.insert(task.id(), order_id);
    }

    fn tell(&self, claimed: &ClaimedOrders) {
        self.count(match (claimed.held, claimed.orders.is_empty() && claimed.set_aside.is_empty()) {
            (true, _) => Dequeue::HELD,
            (false, true) => Dequeue::EMPTY,
            (false, false) => Dequeue::CLAIMED,
        });
        for order in &claimed.set_aside {
            self.given_up(order);
            let (order_id, key) = (order.id, order.idempotency_key.as_str());
            tracing::error!(
                %order_id, idempotency_key = key,
                "a stored order does not match its digest or is nested too deep: somebody changed it past Posthaste. \
                 It is dead and was not sent; look at its audit, and who may write to the database"
            );
        }
    }

    /// Takes back what its sender never reported.
    async fn rewind(&mut self, now: Timestamp) -> StoreResult<bool> {
        if !is_due(self.rewind_at, REWIND_EVERY, now) {
            return Ok(false);
        }
        let (threshold, policy) = (self.options.stuck_threshold, self.options.policy);
        let rewound = self.store.rewind_stuck_orders(threshold, MOVED_MAX, policy, now).await?;
        // A full take may have left some.
        if rewound.len() < MOVED_MAX as usize {
            self.rewind_at = now.after(REWIND_EVERY);
        }
        for order in &rewound {
            self.metrics.outbox.rewound.inc();
            if order.status == OrderStatus::Dead {
                self.given_up(order);
            }
            let (order_id, key) = (order.id, order.idempotency_key.as_str());
            let (status, retry_count) = (order.status.as_str(), order.retry_count);
            tracing::warn!(
                %order_id, idempotency_key = key, trace_id = order.trace_id, status, retry_count,
                "no outcome was reported within the threshold: the order is taken back, and may have been executed"
            );
        }
        Ok(!rewound.is_empty())
    }

    async fn purge(&mut self, now: Timestamp) -> StoreResult<()> {
        if !is_due(self.purge_at, PURGE_EVERY, now) {
            return Ok(());
        }
        let keys = self.store.purge_ledger(PURGED_MAX, now).await?;
        if keys > 0 {
            tracing::debug!(keys, "forgot keys whose time was over");
        }
        if keys < PURGED_MAX {
            self.purge_at = now.after(PURGE_EVERY);
        }
        Ok(())
    }

    fn count(&self, dequeue: Dequeue) {
        self.metrics.outbox.dequeue.get_or_create(&dequeue).inc();
    }

    fn given_up(&self, order: &OrderRecord) {
        self.metrics.outbox.ended(Sent::DEAD, order);
    }
}

impl<S: OutboxWorkerStore + Clone, B: Broker> Step for OutboxWorker<S, B> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.reap_ended();
        let turned = self.turn(now).await;
        self.was_away |= turned.is_err();
        turned
    }

    /// Lets the sends under way end. One that does not in time may have been executed: it stays claimed,
    /// and is taken back after the threshold.
    async fn drain(&mut self, _clock: &Clock, patience: Duration) {
        if tokio::time::timeout(patience, self.settle()).await.is_ok() {
            return;
        }
        self.reap_ended();
        self.sends.abort_all();
        let worker_id = self.options.worker_id.as_str();
        for order_id in self.out.values() {
            tracing::warn!(
                %order_id, worker_id,
                "the broker has not answered yet: the order is taken back after the threshold"
            );
        }
    }
}
