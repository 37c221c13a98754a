//! Port of the role viewer for monitoring: backlog, counters, processes, the explanation of one event, and the
//! rows that `doctor` checks. The cost of a call does not grow with the number of stored events.

use super::{Attempt, Delivery, ProcessSeen, Rollup, ServerFacts, Stage, StoreResult, StoredEvent};
use crate::conservation::{EventFacts, OrderFacts, SagaFacts};
use crate::health::Attempts;
use crate::history::SubscriptionChange;
use crate::ids::{DeadLetterId, EventId, SagaId, SubscriptionId};
use crate::time::Timestamp;
use std::time::Duration;

/// The maximum number of waiting rows counted for each stage. Counting stops at this value.
pub const COUNTED_MAX: u32 = 100_000;

/// The maximum number of deliveries in the explanation of an event.
pub const EXPLAINED_MAX: u32 = 200;
/// The maximum number of subscription changes read for one explanation or one [`Examined`] page.
pub const CHANGES_MAX: u32 = 50_000;
/// The maximum number of sagas in one [`Examined`] page. The page omits events whose sagas do not all fit.
pub const SAGAS_MAX: u32 = 200_000;

/// The parameters of [`InsightStore::survey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyRequest {
    pub now: Timestamp,
    /// The lease duration, from which the end of a finished job is computed.
    pub lease: Duration,
    /// Leases that expired before this time count as stuck.
    pub jobs_stuck_before: Timestamp,
    /// Orders that have been `sending` since before this time count as stuck.
    pub orders_stuck_before: Timestamp,
}

/// The backlog of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of waiting rows, counted up to [`COUNTED_MAX`].
    pub depth: u32,
    /// The time since which the oldest row has been waiting.
    pub oldest: Option<Timestamp>,
}

/// The backlog of every stage. Each number is counted up to [`COUNTED_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Survey {
    pub routing: Waiting,
    /// The due sagas of active, verified subscriptions.
    pub admission: Waiting,
    pub delivery: Waiting,
    pub results: Waiting,
    pub outbox: Waiting,
    /// The number of unfinished sagas of paused, unverified or deleted subscriptions.
    pub held: u32,
    pub stuck_jobs: u32,
    pub stuck_orders: u32,
}

impl Survey {
    pub const fn of(&self, stage: Stage) -> Waiting {
        match stage {
            Stage::Routing => self.routing,
            Stage::Admission => self.admission,
            Stage::Delivery => self.delivery,
            Stage::Results => self.results,
            Stage::Outbox => self.outbox,
        }
    }
}

/// The length of the intervals for which counters are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupWidth {
    TenSeconds,
    FiveMinutes,
}

impl RollupWidth {
    pub const fn seconds(self) -> u32 {
        match self {
            Self::TenSeconds => 10,
            Self::FiveMinutes => 300,
        }
    }

    /// Returns the start of the interval that contains `at`.
    pub fn start_of(self, at: Timestamp) -> Timestamp {
        let width_us = i64::from(self.seconds()) * 1_000_000;
        Timestamp::from_micros(at.micros().div_euclid(width_us) * width_us)
    }
}

/// Information about the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    pub name: &'static str,
    pub version: String,
    /// The number of the last completed migration.
    pub schema_version: u32,
    /// The number of migrations that were started but not completed.
    pub unfinished_migrations: u32,
    pub bytes: Option<u64>,
    /// The time according to the database's clock.
    pub now: Timestamp,
}

/// A value read from the database, or the reason why it could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    Seen(T),
    /// The database role is not permitted to read the value.
    Denied,
    /// The value does not exist in this engine.
    Without,
}

/// A long-running transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldTransaction {
    /// The application name of the session, or the name of the prepared transaction.
    pub who: String,
    pub age: Duration,
}

/// The number of live and dead rows in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadTuples {
    pub table: String,
    pub live: u64,
    pub dead: u64,
}

/// Conditions that prevent the database from removing old data, and other maintenance information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upkeep {
    pub oldest_transaction: Observed<Option<OldTransaction>>,
    pub oldest_prepared: Observed<Option<OldTransaction>>,
    /// The replication slots that prevent the removal of old rows, each with the age of its xmin in
    /// transactions.
    pub holding_slots: Observed<Vec<(String, u64)>>,
    /// The tables with the most dead rows.
    pub dead_tuples: Observed<Vec<DeadTuples>>,
    /// The database files that other users of this machine can read.
    pub exposed_files: Observed<Vec<String>>,
    pub write_ahead_log: Observed<WriteAheadLog>,
    /// Whether the database enforces the rights of each component with a role.
    pub has_roles: Observed<bool>,
}

/// The write-ahead log of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAheadLog {
    pub bytes: u64,
    /// The time for which an open reader has blocked checkpoints, or `None` if checkpoints are not blocked.
    pub blocked_for: Option<Duration>,
}

/// One delivery in the explanation of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedDelivery {
    pub delivery: Delivery,
    /// The attempts of the delivery, oldest first.
    pub attempts: Vec<Attempt>,
    /// The dead letter of this delivery, and the delivery that was requeued from it.
    pub dead_letter: Option<(DeadLetterId, Option<SagaId>)>,
}

/// An event with its deliveries and the subscription changes that explain them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedEvent {
    pub event: StoredEvent,
    /// Whether the event is still waiting for the router.
    pub is_queued: bool,
    /// The deliveries of the event, oldest first.
    pub deliveries: Vec<ExplainedDelivery>,
    /// Whether there are more deliveries than [`EXPLAINED_MAX`].
    pub more_deliveries: bool,
    /// The changes to every subscription that ever had this event type, oldest first for each subscription.
    pub changes: Vec<SubscriptionChange>,
    /// Whether there are more changes than were read.
    pub more_changes: bool,
}

/// The state of the deliveries of one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionHealth {
    pub subscription_id: SubscriptionId,
    /// The number of unfinished deliveries without an attempt in flight, counted up to the requested maximum.
    pub waiting: u32,
    /// The number of deliveries with an attempt in flight, counted up to the same maximum.
    pub in_flight: u32,
    /// The attempts since the requested time. The last error may be older, from a dead letter.
    pub attempts: Attempts,
}

impl SubscriptionHealth {
    pub fn unknown(subscription_id: SubscriptionId) -> Self {
        Self { subscription_id, waiting: 0, in_flight: 0, attempts: Attempts::default() }
    }
}

/// A subscription with its own request timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionTimeout {
    pub id: SubscriptionId,
    pub timeout: Duration,
}

/// The range of events and orders to examine, in id order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Examine {
    /// The id after which events are examined, or `None` to examine no events.
    pub events_after: Option<i64>,
    /// The id after which orders are examined, or `None` to examine no orders.
    pub orders_after: Option<i64>,
    /// Whether to examine the newest events and orders instead. If set, the ids are ignored.
    pub newest: bool,
}

impl Examine {
    /// Returns the id after which the next page starts, or `None` if this page was not full. `rows` is the
    /// number of rows on this page, and `last` is the last id.
    pub fn next(self, rows: usize, last: Option<i64>) -> Option<i64> {
        last.filter(|_| !self.newest && rows >= super::EXAMINED_MAX as usize)
    }
}

/// One page of rows to check, read in one snapshot: at most [`super::EXAMINED_MAX`] events and
/// [`super::EXAMINED_MAX`] orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    pub events: Vec<EventFacts>,
    pub sagas: Vec<SagaFacts>,
    /// The changes to every subscription that ever had the type of one of the events, oldest first for each
    /// subscription.
    pub changes: Vec<SubscriptionChange>,
    /// Whether there are more changes than were read.
    pub more_changes: bool,
    pub orders: Vec<OrderFacts>,
    /// The event id after which the next page starts, or `None` if there are no more events.
    pub next_event: Option<i64>,
    pub next_order: Option<i64>,
    /// The id of the newest event.
    pub last_event: Option<EventId>,
}

impl Examined {
    /// Removes the events whose sagas were not all read. The next page starts with them.
    pub fn keep_whole_events(&mut self) {
        if self.sagas.len() <= SAGAS_MAX as usize {
            return;
        }
        let Some(cut) = self.sagas.last().map(|saga| saga.event_id) else { return };
        if self.events.first().is_some_and(|event| event.id == cut) {
            // A single event fills the page, so its remaining sagas cannot be checked.
            self.events.truncate(1);
            self.more_changes = true;
        } else {
            self.events.retain(|event| event.id < cut);
            self.sagas.retain(|saga| saga.event_id < cut);
        }
        self.next_event = self.events.last().map(|event| event.id.get());
    }
}

pub trait InsightStore: Send + Sync + 'static {
    fn survey(&self, request: SurveyRequest) -> impl Future<Output = StoreResult<Survey>> + Send;

    /// Returns the values of `counters` in the intervals that start at `since` or later, oldest first. Latency
    /// counters are summed over all intervals and returned with the interval start `since`. Counters that are
    /// not in the list are ignored, because any database role can add one.
    fn rollups(
        &self,
        width: RollupWidth,
        since: Timestamp,
        counters: Vec<String>,
    ) -> impl Future<Output = StoreResult<Vec<Rollup>>> + Send;

    /// Returns the processes that reported at `since` or later, most recent first, limited to 1,000.
    fn processes(&self, since: Timestamp) -> impl Future<Output = StoreResult<Vec<ProcessSeen>>> + Send;

    fn engine(&self) -> impl Future<Output = StoreResult<EngineFacts>> + Send;

    fn upkeep(&self) -> impl Future<Output = StoreResult<Upkeep>> + Send;

    /// Returns the state and the settings of the database server, or `None` if the engine is embedded.
    fn server(&self) -> impl Future<Output = StoreResult<Option<ServerFacts>>> + Send;

    /// Returns the state of each subscription's deliveries, in the order of `ids`: the backlog, counted up to
    /// `counted_max`, and the attempts in the intervals that start at `since` or later.
    fn subscription_health(
        &self,
        ids: Vec<SubscriptionId>,
        counted_max: u32,
        since: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<SubscriptionHealth>>> + Send;

    /// Returns subscriptions with a timeout longer than `longest`, newest first, limited to 100. Only the newest
    /// [`super::EXAMINED_MAX`] subscriptions are read. Deleted ones are omitted.
    fn long_timeouts(
        &self,
        longest: Duration,
    ) -> impl Future<Output = StoreResult<Vec<SubscriptionTimeout>>> + Send;

    fn explain(&self, id: EventId) -> impl Future<Output = StoreResult<Option<ExplainedEvent>>> + Send;

    fn examine(&self, page: Examine) -> impl Future<Output = StoreResult<Examined>> + Send;
}
