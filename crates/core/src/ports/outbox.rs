//! Roles outbox_writer and outbox_worker: orders come in once, and go out until they end. What
//! becomes of an order is decided by [`crate::order::step`], of the lane by [`crate::lane`].

use super::{RestartedWaits, StoreResult, WaitPage};
use crate::broker::BrokerOutcome;
use crate::digest::Digest;
use crate::ids::{LeaseToken, OrderId, WorkerId};
use crate::lane::Lane;
use crate::order::{IdempotencyKey, Order, OrderStatus};
use crate::retry::OrderRetryPolicy;
use crate::time::Timestamp;
use std::time::Duration;

/// An order as it stands.
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
    /// The broker's answer, as far as it could be read as JSON.
    pub result_json: Option<String>,
    pub maybe_executed: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    New(OrderRecord),
    /// The same order was there; this is how it stands.
    Same(OrderRecord),
    /// Another order was there under the same key. Nothing was changed.
    Different,
}

pub trait OutboxIntakeStore: Send + Sync + 'static {
    /// Stores orders with their ledger entries; answers in order. Two of one key in one call count
    /// like two calls.
    fn submit_orders(
        &self,
        orders: Vec<Order>,
        ledger_ttl: Duration,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Submission>>> + Send;
}

/// One claim: who, how many at most, and how long a probe may be out if the lane allows only that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxClaim {
    pub worker_id: WorkerId,
    pub token: LeaseToken,
    pub orders_max: u32,
    pub probe_for: Duration,
    /// The same claim, token and time, was made before and got no answer: it takes nothing, and answers
    /// what it took then.
    pub again: bool,
}

/// What a claim got. A probe is at most one order.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedOrders {
    pub probe: bool,
    /// The lane let nothing through, whatever waits.
    pub held: bool,
    pub orders: Vec<ClaimedOrder>,
    /// Orders that were taken and ended, because they are no longer what was accepted.
    pub set_aside: Vec<OrderRecord>,
    /// As the claim left it.
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
    /// The canonical bytes that the digest covers and the broker gets.
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
    /// Whether this send was a probe of a paused lane.
    pub probe: bool,
    pub outcome: BrokerOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Accepted(Box<OrderRecord>),
    /// The claim had been rewound: nothing was changed.
    ClaimLost,
}

/// Whether orders are queued, and when the next failed one is due; `None` if none waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextOrders {
    pub has_queued: bool,
    pub failed_at: Option<Timestamp>,
}

/// The lane, and how many orders are `sending`, over all processes.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStanding {
    pub lane: Lane,
    pub sending: u32,
}

pub trait OutboxWorkerStore: Send + Sync + 'static {
    /// Failed orders whose time has come go back to the queue (or end, over a lowered limit).
    fn requeue_due_orders(
        &self,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<OrderRecord>>> + Send;

    /// Reads the failed orders whose `next_attempt_at` is `page.from` or later, and restarts the waits that were stored
    /// by a clock which was set back since: [`OrderRetryPolicy::restarted_wait`] decides.
    fn restart_waits(
        &self,
        page: WaitPage,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RestartedWaits>> + Send;

    /// When the next orders are due. It only looks: an empty queue costs no write.
    fn next_orders_at(&self) -> impl Future<Output = StoreResult<NextOrders>> + Send;

    /// Claims queued orders, oldest first, as many as the lane allows now. One
    /// transaction locks the lane's row, counts what is being sent, asks [`Lane::may_claim`], and
    /// writes [`Lane::claimed`] or [`Lane::probing`] with the claim. An order that does not match its
    /// digest is set aside and stops no other.
    fn claim_orders(
        &self,
        claim: OutboxClaim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<ClaimedOrders>> + Send;

    /// Writes down what the broker said, with the ledger and the lane, in one transaction; answers in
    /// order. Only the holder of the claim changes anything.
    fn settle_orders(
        &self,
        reports: Vec<OrderReport>,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Settled>>> + Send;

    /// Gives claimed orders back of which nothing was sent; answers how many. Only those that the token
    /// still holds.
    fn release_orders(
        &self,
        orders: Vec<OrderId>,
        token: LeaseToken,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<u32>> + Send;

    /// Orders that have been `sending` for longer than `stuck_threshold` go back to the queue (or end). So do those
    /// claimed further than that in the future: the clock was set back since.
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
