//! The common interface of both engines: the ports of all roles from one store. Only the wiring and the tests
//! use it; a component gets a single port.

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
    /// Reports with the rights of the viewer, the role that every process has.
    fn presence(&self) -> Self::Presence;

    /// Returns the authoritative time: the database's if several processes share it, otherwise the machine's.
    fn now(&self) -> impl Future<Output = StoreResult<Timestamp>> + Send;

    /// Samples the same clock against the monotonic clock of this machine. The round trip covers only the
    /// query, not the wait for a connection, and is the smallest of several.
    fn sample_clock(&self) -> impl Future<Output = StoreResult<ClockSample>> + Send;
}

/// One sample of the store's clock: it showed `time` at some moment within `round_trip` after `asked_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    pub time: Timestamp,
    pub asked_at: Instant,
    pub round_trip: Duration,
}
