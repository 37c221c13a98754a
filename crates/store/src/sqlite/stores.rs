//! Creates the SQLite ports from a [`SqliteStore`].

use std::time::Instant;

use posthaste_core::Timestamp;
use posthaste_core::ports::{ClockSample, StoreResult, Stores};

use super::migrate::system_now;
use super::{
    SqliteCleaner, SqliteDeadLetters, SqliteIngest, SqliteInsight, SqliteKeys, SqliteOrchestrator,
    SqliteOutboxIntake, SqliteOutboxWorker, SqlitePresence, SqliteReader, SqliteRouter, SqliteStore,
    SqliteSubscriptions, SqliteWorker,
};

impl Stores for SqliteStore {
    type Ingest = SqliteIngest;
    type Subscriptions = SqliteSubscriptions;
    type Router = SqliteRouter;
    type Orchestrator = SqliteOrchestrator;
    type Worker = SqliteWorker;
    type Cleaner = SqliteCleaner;
    type DeadLetters = SqliteDeadLetters;
    type OutboxIntake = SqliteOutboxIntake;
    type OutboxWorker = SqliteOutboxWorker;
    type Keys = SqliteKeys;
    type Reader = SqliteReader;
    type Insight = SqliteInsight;
    type Presence = SqlitePresence;

    fn ingest(&self) -> SqliteIngest {
        SqliteIngest(self.clone())
    }

    fn subscriptions(&self) -> SqliteSubscriptions {
        SqliteSubscriptions(self.clone())
    }

    fn router(&self) -> SqliteRouter {
        SqliteRouter(self.clone())
    }

    fn orchestrator(&self) -> SqliteOrchestrator {
        SqliteOrchestrator(self.clone())
    }

    fn worker(&self) -> SqliteWorker {
        SqliteWorker(self.clone())
    }

    fn cleaner(&self) -> SqliteCleaner {
        SqliteCleaner(self.clone())
    }

    fn dead_letters(&self) -> SqliteDeadLetters {
        SqliteDeadLetters(self.clone())
    }

    fn outbox_intake(&self) -> SqliteOutboxIntake {
        SqliteOutboxIntake(self.clone())
    }

    fn outbox_worker(&self) -> SqliteOutboxWorker {
        SqliteOutboxWorker(self.clone())
    }

    fn keys(&self) -> SqliteKeys {
        SqliteKeys(self.clone())
    }

    fn reader(&self) -> SqliteReader {
        SqliteReader(self.clone())
    }

    fn insight(&self) -> SqliteInsight {
        SqliteInsight(self.clone())
    }

    fn presence(&self) -> SqlitePresence {
        SqlitePresence(self.clone())
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        Ok(system_now())
    }

    async fn sample_clock(&self) -> StoreResult<ClockSample> {
        let asked_at = Instant::now();
        Ok(ClockSample { time: system_now(), asked_at, round_trip: asked_at.elapsed() })
    }
}
