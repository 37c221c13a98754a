//! Ports of the roles outbox_writer and outbox_worker: orders are accepted once and sent until they end.
//! [`crate::order::step`] decides the state of orders, [`crate::lane`] that of the lane.

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
    /// The broker's response, if it is valid JSON.
    pub result_json: Option<String>,
    pub maybe_executed: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    New(OrderRecord),
    /// The same order was already stored; this is its current state.
    Same(OrderRecord),
    /// Another order was stored under the same key. No change was made.
    Different,
}

pub trait OutboxIntakeStore: Send + Sync + 'static {
    /// Stores orders with their ledger entries. Returns the results in order. Two orders with the same key in
    /// one call have the same effect as two calls.
    fn submit_orders(
        &self,
        orders: Vec<Order>,
        ledger_ttl: Duration,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Submission>>> + Send;
}

/// One claim: the worker, the maximum number of orders, and how long a probe may be in flight if the lane
/// allows only that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxClaim {
    pub worker_id: WorkerId,
    pub token: LeaseToken,
    pub orders_max: u32,
    pub probe_for: Duration,
    /// Whether the same claim, with this token and time, was sent before and its outcome is unknown. Then it
    /// claims nothing new and returns what it claimed before.
    pub again: bool,
}

/// The result of a claim. A probe has at most one order.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedOrders {
    pub probe: bool,
    /// Whether the lane allowed no claim.
    pub held: bool,
    pub orders: Vec<ClaimedOrder>,
    /// Orders that were claimed and ended, because they no longer match what was accepted.
    pub set_aside: Vec<OrderRecord>,
    /// The lane after the claim.
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
    /// The canonical text, which the digest covers and the broker gets.
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
    /// Whether this send was a probe.
    pub probe: bool,
    pub outcome: BrokerOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Accepted(Box<OrderRecord>),
    /// The claim was taken back; no change was made.
    ClaimLost,
}

/// Whether orders are queued, and when the next failed one is due; `None` if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextOrders {
    pub has_queued: bool,
    pub failed_at: Option<Timestamp>,
}

/// The lane, and the number of `sending` orders in all processes.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStanding {
    pub lane: Lane,
    pub sending: u32,
}

pub trait OutboxWorkerStore: Send + Sync + 'static {
    /// Queues failed orders that are due again, or ends them if they exceed a lowered limit.
    fn requeue_due_orders(
        &self,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<OrderRecord>>> + Send;

    /// Reads the failed orders whose `next_attempt_at` is `page.from` or later, and restarts the waits that
    /// were stored before a clock step back, as [`OrderRetryPolicy::restarted_wait`] decides.
    fn restart_waits(
        &self,
        page: WaitPage,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RestartedWaits>> + Send;

    /// Returns when the next orders are due. Read-only, so an empty queue causes no write.
    fn next_orders_at(&self) -> impl Future<Output = StoreResult<NextOrders>> + Send;

    /// Claims queued orders, oldest first, as many as the lane allows now. One transaction locks the lane's
    /// row, counts the orders in flight, calls [`Lane::may_claim`] and writes [`Lane::claimed`] or
    /// [`Lane::probing`] together with the claim. An order that does not match its digest is set aside and
    /// does not affect the others.
    fn claim_orders(
        &self,
        claim: OutboxClaim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<ClaimedOrders>> + Send;

    /// Records the broker's responses in the orders, the ledger and the lane, in one transaction. Returns the
    /// results in order. A report without the current token of the claim changes nothing.
    fn settle_orders(
        &self,
        reports: Vec<OrderReport>,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Settled>>> + Send;

    /// Releases claimed orders that were not sent, if the token still holds them. Returns how many were
    /// released.
    fn release_orders(
        &self,
        orders: Vec<OrderId>,
        token: LeaseToken,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<u32>> + Send;

    /// Queues orders that have been `sending` for longer than `stuck_threshold`, or ends them. The same
    /// applies to orders claimed further than that in the future: the clock was set back since.
    fn rewind_stuck_orders(
        &self,
        stuck_threshold: Duration,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<OrderRecord>>> + Send;

    /// Deletes ledger rows that expired before `now` and whose order has ended.
    fn purge_ledger(&self, rows_max: u32, now: Timestamp) -> impl Future<Output = StoreResult<u32>> + Send;

    fn load_lane(&self) -> impl Future<Output = StoreResult<Lane>> + Send;
}
