//! Port of the role viewer, for operators: backlog, counters, processes, the explanation of one event, and
//! the facts that `doctor` checks. No call has a cost proportional to the history.

use super::{Attempt, Delivery, ProcessSeen, Rollup, Stage, StoreResult, StoredEvent};
use crate::conservation::{EventFacts, OrderFacts, SagaFacts};
use crate::health::Attempts;
use crate::history::SubscriptionChange;
use crate::ids::{DeadLetterId, EventId, SagaId, SubscriptionId};
use crate::time::Timestamp;
use std::time::Duration;

/// The maximum count of waiting rows; counting stops there.
pub const COUNTED_MAX: u32 = 100_000;

/// The maximum number of deliveries in an explanation.
pub const EXPLAINED_MAX: u32 = 200;
/// The maximum number of subscription changes that are read for one explanation or page.
pub const CHANGES_MAX: u32 = 50_000;
/// The maximum number of sagas in one page. The page contains only events whose sagas are all among them.
pub const SAGAS_MAX: u32 = 200_000;

/// The parameters of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyRequest {
    pub now: Timestamp,
    /// The length of leases, from which the end of a finished job is derived.
    pub lease: Duration,
    /// A lease that expired before this should have been reset.
    pub jobs_stuck_before: Timestamp,
    /// An order that has been `sending` since before this should have been taken back.
    pub orders_stuck_before: Timestamp,
}

/// The backlog before one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Counted up to [`COUNTED_MAX`].
    pub depth: u32,
    /// Since when the oldest row has been waiting.
    pub oldest: Option<Timestamp>,
}

/// The backlog before every stage, each counted up to [`COUNTED_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Survey {
    pub routing: Waiting,
    /// Due sagas of active, verified subscriptions.
    pub admission: Waiting,
    pub delivery: Waiting,
    pub results: Waiting,
    pub outbox: Waiting,
    /// Unfinished sagas of paused, unverified or deleted subscriptions.
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

/// The length of the intervals of counters.
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

/// The database behind the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    pub name: &'static str,
    pub version: String,
    /// The last migration that was completed.
    pub schema_version: u32,
    /// Migrations that were started and not finished.
    pub unfinished_migrations: u32,
    pub bytes: Option<u64>,
    /// The time of its clock.
    pub now: Timestamp,
}

/// An observation, or why it could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    Seen(T),
    /// The role lacks the right to see it.
    Denied,
    /// This engine does not have it.
    Without,
}

/// A transaction that has been open for a long time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldTransaction {
    /// The application name of the session, or the name of a prepared transaction or a replication slot.
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

/// What prevents the database from removing old data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upkeep {
    pub oldest_transaction: Observed<Option<OldTransaction>>,
    pub oldest_prepared: Observed<Option<OldTransaction>>,
    /// Replication slots that keep old rows, each with the age of its xmin in transactions.
    pub holding_slots: Observed<Vec<(String, u64)>>,
    /// The tables with the most dead rows.
    pub dead_tuples: Observed<Vec<DeadTuples>>,
    /// Database files that other users of this machine can read.
    pub exposed_files: Observed<Vec<String>>,
    pub write_ahead_log: Observed<WriteAheadLog>,
}

/// The write-ahead log of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAheadLog {
    pub bytes: u64,
    /// How long an open reader has blocked checkpoints; `None` if it does not.
    pub blocked_for: Option<Duration>,
}

/// One delivery of an explained event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedDelivery {
    pub delivery: Delivery,
    /// In order.
    pub attempts: Vec<Attempt>,
    /// Its dead letter, and the delivery that was requeued from it.
    pub dead_letter: Option<(DeadLetterId, Option<SagaId>)>,
}

/// An event and everything that explains where it was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedEvent {
    pub event: StoredEvent,
    /// Whether it waits for the router.
    pub is_queued: bool,
    /// Oldest first.
    pub deliveries: Vec<ExplainedDelivery>,
    /// Whether there are more deliveries than listed.
    pub more_deliveries: bool,
    /// The changes of every subscription that ever had this event type, for each from oldest to newest.
    pub changes: Vec<SubscriptionChange>,
    /// Whether there are more changes than were read.
    pub more_changes: bool,
}

/// The state of the deliveries of one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionHealth {
    pub subscription_id: SubscriptionId,
    /// Unfinished deliveries without an attempt in flight, counted up to the requested maximum.
    pub waiting: u32,
    /// Counted up to the same maximum.
    pub in_flight: u32,
    /// The attempts since the requested time. The last error may be that of an older dead letter.
    pub attempts: Attempts,
}

impl SubscriptionHealth {
    pub fn unknown(subscription_id: SubscriptionId) -> Self {
        Self { subscription_id, waiting: 0, in_flight: 0, attempts: Attempts::default() }
    }
}

/// The part of the history to examine, in the order of ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Examine {
    /// Examine events after this id; `None` if all were examined.
    pub events_after: Option<i64>,
    /// Examine orders after this id; `None` if all were examined.
    pub orders_after: Option<i64>,
    /// Examine the newest rows instead.
    pub newest: bool,
}

impl Examine {
    /// Returns the start of the next page if this page of `rows` rows was full; `last` is its last id.
    pub fn next(self, rows: usize, last: Option<i64>) -> Option<i64> {
        last.filter(|_| !self.newest && rows >= super::EXAMINED_MAX as usize)
    }
}

/// One page of facts from one snapshot: at most [`super::EXAMINED_MAX`] events and as many orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    pub events: Vec<EventFacts>,
    pub sagas: Vec<SagaFacts>,
    /// The changes of every subscription that ever had one of the types, for each from oldest to newest.
    pub changes: Vec<SubscriptionChange>,
    /// Whether there are more changes than were read.
    pub more_changes: bool,
    pub orders: Vec<OrderFacts>,
    /// The start of the next page, or `None` if there is none.
    pub next_event: Option<i64>,
    pub next_order: Option<i64>,
    /// The newest event.
    pub last_event: Option<EventId>,
}

impl Examined {
    /// Removes the events whose sagas were not all read; the next page begins with them.
    pub fn keep_whole_events(&mut self) {
        if self.sagas.len() <= SAGAS_MAX as usize {
            return;
        }
        let Some(cut) = self.sagas.last().map(|saga| saga.event_id) else { return };
        if self.events.first().is_some_and(|event| event.id == cut) {
            // One event fills the page. Its unread sagas cannot be checked.
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

    /// Returns the values of these counters in the intervals that begin at `since` or later, oldest first.
    /// Latency counters are summed over all intervals and returned at `since`. Any login may add a counter,
    /// so the caller names those that it knows.
    fn rollups(
        &self,
        width: RollupWidth,
        since: Timestamp,
        counters: Vec<String>,
    ) -> impl Future<Output = StoreResult<Vec<Rollup>>> + Send;

    /// Returns the processes that reported at `since` or later, the most recent first, at most a thousand.
    fn processes(&self, since: Timestamp) -> impl Future<Output = StoreResult<Vec<ProcessSeen>>> + Send;

    fn engine(&self) -> impl Future<Output = StoreResult<EngineFacts>> + Send;

    fn upkeep(&self) -> impl Future<Output = StoreResult<Upkeep>> + Send;

    /// Returns the state of the deliveries of these subscriptions, in the same order: the backlog, counted up
    /// to `counted_max`, and the attempts of the intervals that begin at `since` or later.
    fn subscription_health(
        &self,
        ids: Vec<SubscriptionId>,
        counted_max: u32,
        since: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<SubscriptionHealth>>> + Send;

    fn explain(&self, id: EventId) -> impl Future<Output = StoreResult<Option<ExplainedEvent>>> + Send;

    fn examine(&self, page: Examine) -> impl Future<Output = StoreResult<Examined>> + Send;
}
