//! Role viewer, for operators: how much waits and since when, what was counted, who runs, what became of
//! one event, and the facts that `doctor` judges. Nothing here is proportional to history.

use super::{Attempt, Delivery, ProcessSeen, Rollup, Stage, StoreResult, StoredEvent};
use crate::conservation::{EventFacts, OrderFacts, SagaFacts};
use crate::health::Attempts;
use crate::history::SubscriptionChange;
use crate::ids::{DeadLetterId, EventId, SagaId, SubscriptionId};
use crate::time::Timestamp;
use std::time::Duration;

/// What waits is counted so far and no further.
pub const COUNTED_MAX: u32 = 100_000;

/// The most deliveries that an explanation tells of.
pub const EXPLAINED_MAX: u32 = 200;
/// The most changes of subscriptions that are read for one explanation or page.
pub const CHANGES_MAX: u32 = 50_000;
/// The most sagas of one page; its events are as many as have theirs among them.
pub const SAGAS_MAX: u32 = 200_000;

/// What is to be counted, and by which bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyRequest {
    pub now: Timestamp,
    /// How long leases are given for: it tells when a finished job ended.
    pub lease: Duration,
    /// A lease that ran out before this should have been given back.
    pub jobs_stuck_before: Timestamp,
    /// An order that is being sent since before this should have gone back to the queue.
    pub orders_stuck_before: Timestamp,
}

/// What waits before one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Up to [`COUNTED_MAX`].
    pub depth: u32,
    /// Since when the oldest waits.
    pub oldest: Option<Timestamp>,
}

/// How much waits, each up to [`COUNTED_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Survey {
    pub routing: Waiting,
    /// Sagas that are due and may go: of active, verified subscriptions.
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

/// How long the intervals of counters are.
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

    /// The interval that an instant belongs to.
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
    /// The last migration that was applied to its end.
    pub schema_version: u32,
    /// Migrations that were begun and not ended.
    pub unfinished_migrations: u32,
    pub bytes: Option<u64>,
    /// What its clock says.
    pub now: Timestamp,
}

/// What could be seen, or why it could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    Seen(T),
    /// The role's rights do not reach so far.
    Denied,
    /// This engine has no such thing.
    Without,
}

/// A transaction that has been open for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldTransaction {
    /// What its program calls itself, or the name of a prepared transaction or of a replication slot.
    pub who: String,
    pub age: Duration,
}

/// Rows that a vacuum has not cleared away yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadTuples {
    pub table: String,
    pub live: u64,
    pub dead: u64,
}

/// What keeps the database from cleaning up after itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upkeep {
    pub oldest_transaction: Observed<Option<OldTransaction>>,
    pub oldest_prepared: Observed<Option<OldTransaction>>,
    /// Slots that hold old rows back, with the number of transactions since.
    pub holding_slots: Observed<Vec<(String, u64)>>,
    /// The tables with the most of them.
    pub dead_tuples: Observed<Vec<DeadTuples>>,
    /// Files of the database that other users of this machine can open.
    pub exposed_files: Observed<Vec<String>>,
    pub write_ahead_log: Observed<WriteAheadLog>,
}

/// The write-ahead log of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAheadLog {
    pub bytes: u64,
    /// For how long an open reader has kept the log from being emptied; `None` if it does not.
    pub blocked_for: Option<Duration>,
}

/// One delivery of an explained event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedDelivery {
    pub delivery: Delivery,
    /// In order.
    pub attempts: Vec<Attempt>,
    /// Its dead letter, and the delivery that was made from it.
    pub dead_letter: Option<(DeadLetterId, Option<SagaId>)>,
}

/// An event and all that tells where it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedEvent {
    pub event: StoredEvent,
    /// It waits for the router.
    pub is_queued: bool,
    /// Oldest first.
    pub deliveries: Vec<ExplainedDelivery>,
    /// There are more deliveries than are told.
    pub more_deliveries: bool,
    /// Of every subscription that ever asked for this type; each one's oldest first.
    pub changes: Vec<SubscriptionChange>,
    /// There are more changes than were read.
    pub more_changes: bool,
}

/// How the deliveries of one subscription go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionHealth {
    pub subscription_id: SubscriptionId,
    /// Unfinished deliveries without an attempt under way, up to the bound that was asked for.
    pub waiting: u32,
    /// Up to the same bound.
    pub in_flight: u32,
    /// Since the time that was asked for; the last error may be that of an older dead letter.
    pub attempts: Attempts,
}

impl SubscriptionHealth {
    pub fn unknown(subscription_id: SubscriptionId) -> Self {
        Self { subscription_id, waiting: 0, in_flight: 0, attempts: Attempts::default() }
    }
}

/// A part of history to look at, in the order of ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Examine {
    /// Events behind this id; nothing if they were all looked at.
    pub events_after: Option<i64>,
    /// Orders behind this id; nothing if they were all looked at.
    pub orders_after: Option<i64>,
    /// The newest ones instead.
    pub newest: bool,
}

impl Examine {
    /// Where the next page of `rows` rows begins, if this one was full; `last` is its last id.
    pub fn next(self, rows: usize, last: Option<i64>) -> Option<i64> {
        last.filter(|_| !self.newest && rows >= super::EXAMINED_MAX as usize)
    }
}

/// One page of facts, all of one moment. At most [`super::EXAMINED_MAX`] events and as many orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    pub events: Vec<EventFacts>,
    pub sagas: Vec<SagaFacts>,
    /// Of every subscription that ever asked for one of the types; each one's oldest first.
    pub changes: Vec<SubscriptionChange>,
    /// There are more changes than were read.
    pub more_changes: bool,
    pub orders: Vec<OrderFacts>,
    /// Where the next page goes on; nothing where there is no more.
    pub next_event: Option<i64>,
    pub next_order: Option<i64>,
    /// The newest event there is.
    pub last_event: Option<EventId>,
}

impl Examined {
    /// Leaves out the events whose sagas were not all read, and lets the next page begin with them.
    pub fn keep_whole_events(&mut self) {
        if self.sagas.len() <= SAGAS_MAX as usize {
            return;
        }
        let Some(cut) = self.sagas.last().map(|saga| saga.event_id) else { return };
        if self.events.first().is_some_and(|event| event.id == cut) {
            // One event fills the page: what is not read of it cannot be judged.
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

    /// What these counters counted in the intervals that begin at `since` or later, oldest first. The counters of
    /// latencies are summed up over all of them and stand at `since`. Any login may add a counter, so that the caller
    /// names those that it knows.
    fn rollups(
        &self,
        width: RollupWidth,
        since: Timestamp,
        counters: Vec<String>,
    ) -> impl Future<Output = StoreResult<Vec<Rollup>>> + Send;

    /// The processes that reported at `since` or later, the last ones first, a thousand at most.
    fn processes(&self, since: Timestamp) -> impl Future<Output = StoreResult<Vec<ProcessSeen>>> + Send;

    fn engine(&self) -> impl Future<Output = StoreResult<EngineFacts>> + Send;

    fn upkeep(&self) -> impl Future<Output = StoreResult<Upkeep>> + Send;

    /// How the deliveries of these subscriptions go, in the order asked: what waits, counted to `counted_max`, and the
    /// attempts of the intervals that begin at `since` or later.
    fn subscription_health(
        &self,
        ids: Vec<SubscriptionId>,
        counted_max: u32,
        since: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<SubscriptionHealth>>> + Send;

    fn explain(&self, id: EventId) -> impl Future<Output = StoreResult<Option<ExplainedEvent>>> + Send;

    fn examine(&self, page: Examine) -> impl Future<Output = StoreResult<Examined>> + Send;
}
