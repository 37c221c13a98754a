//! Ports of the roles outbox_writer, which accepts orders, and outbox_worker, which sends them.
//! [`crate::order::step`] decides the state of an order, and [`crate::lane`] decides the state of the lane.

use super::{RestartedWaits, StoreResult, WaitPage};
use crate::broker::BrokerOutcome;
use crate::digest::Digest;
use crate::ids::{LeaseToken, OrderId, WorkerId};
use crate::lane::Lane;
use crate::order::{IdempotencyKey, Order, OrderStatus};
use crate::retry::OrderRetryPolicy;
use crate::time::Timestamp;
use std::time::Duration;

/// The current state of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderRecord {
    pub id: OrderId,
    pub idempotency_key: IdempotencyKey,
    pub status: OrderStatus,
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    pub last_error: Option<String>,
    pub trace_id: Option<String>,
    pub broker_order_id: Option<String>,
    pub request_digest: Digest,
    pub result_digest: Option<Digest>,
    /// The broker's response, if it is JSON that can be stored.
    pub result_json: Option<String>,
    pub maybe_executed: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    New(OrderRecord),
    /// The same order was already stored. Contains its current state.
    Same(OrderRecord),
    /// A different order was already stored under the same key. No change was made.
    Different,
}

pub trait OutboxIntakeStore: Send + Sync + 'static {
    /// Stores orders with their ledger entries. Returns the results in the order of `orders`. Submitting two
    /// orders with the same key in one call has the same effect as submitting them in two calls.
    fn submit_orders(
        &self,
        orders: Vec<Order>,
        ledger_ttl: Duration,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Submission>>> + Send;
}

/// A request to claim orders. If the lane allows only a probe, `probe_for` is the time for which it may be in
/// flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxClaim {
    pub worker_id: WorkerId,
    pub token: LeaseToken,
    pub orders_max: u32,
    pub probe_for: Duration,
    /// Whether this claim is a retry, with the same token and time, because the outcome of the first call is
    /// unknown. A retry claims no new orders and returns those that the first call claimed.
    pub again: bool,
}

/// The result of a claim. A probe contains at most one order.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedOrders {
    pub probe: bool,
    /// Whether the lane did not allow a claim.
    pub held: bool,
    pub orders: Vec<ClaimedOrder>,
    /// The orders that were marked as dead because their stored content no longer matches their digest.
    pub set_aside: Vec<OrderRecord>,
    /// The state of the lane after the claim.
    pub lane: Lane,
}

impl ClaimedOrders {
    pub const fn nothing(held: bool, lane: Lane) -> Self {
        Self { probe: false, held, orders: Vec::new(), set_aside: Vec::new(), lane }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedOrder {
    pub id: OrderId,
    pub idempotency_key: IdempotencyKey,
    /// The canonical JSON of the order. The digest covers this text, and it is sent to the broker.
    pub canonical: String,
    pub request_digest: Digest,
    pub trace_id: Option<String>,
    pub retry_count: u32,
    pub created_at: Timestamp,
    pub claimed_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderReport {
    pub id: OrderId,
    pub token: LeaseToken,
    /// Whether the request was a probe.
    pub probe: bool,
    pub outcome: BrokerOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Accepted(Box<OrderRecord>),
    /// The token of the report is not that of the order's last claim. No change was made.
    ClaimLost,
}

/// Whether there are queued orders, and when the next failed order is due. `failed_at` is `None` if there are
/// no failed orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextOrders {
    pub has_queued: bool,
    pub failed_at: Option<Timestamp>,
}

/// The state of the lane, and the number of `sending` orders across all processes.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStanding {
    pub lane: Lane,
    pub sending: u32,
}

pub trait OutboxWorkerStore: Send + Sync + 'static {
    /// Queues the failed orders that are due. Orders that exceed a lowered retry limit are marked as dead.
    fn requeue_due_orders(
        &self,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<OrderRecord>>> + Send;

    /// Reads the failed orders whose `next_attempt_at` is `page.from` or later, and restarts the waits that
    /// were stored before the clock was set back, as decided by [`OrderRetryPolicy::restarted_wait`].
    fn restart_waits(
        &self,
        page: WaitPage,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RestartedWaits>> + Send;

    /// Returns when the next orders are due. Read-only, so that polling an empty queue causes no writes.
    fn next_orders_at(&self) -> impl Future<Output = StoreResult<NextOrders>> + Send;

    /// Claims queued orders, oldest first, up to the number that the lane allows. One transaction locks the
    /// lane's row, counts the orders in flight, calls [`Lane::may_claim`], and writes [`Lane::claimed`] or
    /// [`Lane::probing`] together with the claim. An order that does not match its digest is marked as dead and
    /// does not affect other orders.
    fn claim_orders(
        &self,
        claim: OutboxClaim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<ClaimedOrders>> + Send;

    /// Records the broker's responses in the orders, the ledger and the lane, in one transaction. Returns the
    /// results in the order of `reports`. A report whose token is not that of the order's last claim has no
    /// effect.
    fn settle_orders(
        &self,
        reports: Vec<OrderReport>,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Settled>>> + Send;

    /// Releases claimed orders that were not sent, if they are still claimed with `token`. Returns the number
    /// of released orders.
    fn release_orders(
        &self,
        orders: Vec<OrderId>,
        token: LeaseToken,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<u32>> + Send;

    /// Queues the orders that have been `sending` for longer than `stuck_threshold`. Orders without retries
    /// left are marked as dead. Orders claimed more than `stuck_threshold` in the future are also stuck,
    /// because the clock was set back after the claim.
    fn rewind_stuck_orders(
        &self,
        stuck_threshold: Duration,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<OrderRecord>>> + Send;

    /// Deletes the ledger rows that expired before `now` and whose order is in a final state. Returns the
    /// number of deleted rows.
    fn purge_ledger(&self, rows_max: u32, now: Timestamp) -> impl Future<Output = StoreResult<u32>> + Send;

    fn load_lane(&self) -> impl Future<Output = StoreResult<Lane>> + Send;
}
