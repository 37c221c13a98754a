//! The common interface of both engines, which provides the ports of all roles. It is used only at startup and
//! in tests; a component depends on a single port.

use super::{
    CleanerStore, DeadLetterStore, IngestStore, InsightStore, KeyStore, OrchestratorStore, OutboxIntakeStore,
    OutboxWorkerStore, PresenceStore, ReaderStore, RouterStore, StoreResult, SubscriptionStore, WorkerStore,
};
use crate::time::Timestamp;
use std::time::{Duration, Instant};

pub trait Stores: Clone + Send + Sync + 'static {
    type Ingest: IngestStore + Clone;
    type Subscriptions: SubscriptionStore + Clone;
    type Router: RouterStore + Clone;
    type Orchestrator: OrchestratorStore + Clone;
    type Worker: WorkerStore + Clone;
    type Cleaner: CleanerStore + Clone;
    type DeadLetters: DeadLetterStore + Clone;
    type OutboxIntake: OutboxIntakeStore + Clone;
    type OutboxWorker: OutboxWorkerStore + Clone;
    type Keys: KeyStore + Clone;
    type Reader: ReaderStore + Clone;
    type Insight: InsightStore + Clone;
    type Presence: PresenceStore + Clone;

    fn ingest(&self) -> Self::Ingest;
    fn subscriptions(&self) -> Self::Subscriptions;
    fn router(&self) -> Self::Router;
    fn orchestrator(&self) -> Self::Orchestrator;
    fn worker(&self) -> Self::Worker;
    fn cleaner(&self) -> Self::Cleaner;
    fn dead_letters(&self) -> Self::DeadLetters;
    fn outbox_intake(&self) -> Self::OutboxIntake;
    fn outbox_worker(&self) -> Self::OutboxWorker;
    fn keys(&self) -> Self::Keys;
    fn reader(&self) -> Self::Reader;
    fn insight(&self) -> Self::Insight;
    /// Returns the port for presence reports. It uses the role viewer, which every process has.
    fn presence(&self) -> Self::Presence;

    /// Returns the authoritative time: the database server's if several processes can share the database,
    /// otherwise the local machine's.
    fn now(&self) -> impl Future<Output = StoreResult<Timestamp>> + Send;

    /// Compares the clock of [`now`](Self::now) with the monotonic clock of this machine. Returns the sample
    /// with the shortest round trip of several. The round trip excludes the wait for a connection.
    fn sample_clock(&self) -> impl Future<Output = StoreResult<ClockSample>> + Send;
}

/// One sample of the store's clock, which showed `time` at some point within `round_trip` after `asked_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    pub time: Timestamp,
    pub asked_at: Instant,
    pub round_trip: Duration,
}
