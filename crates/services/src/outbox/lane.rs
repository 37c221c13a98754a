//! The state of the lane as last read by this process, for its metrics and readiness check. Each change is
//! logged once.

use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::lane::{Lane, LaneMode};
use posthaste_core::ports::{OutboxWorkerStore, ReaderStore, StoreResult};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The interval between reads of the lane.
pub const LANE_EVERY: Duration = Duration::from_secs(1);

/// The lane as last read. Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub struct LaneState {
    seen: Arc<Mutex<Option<Lane>>>,
    metrics: Metrics,
}

impl LaneState {
    pub fn new(metrics: Metrics) -> Self {
        Self { seen: Arc::default(), metrics }
    }

    /// Returns the lane as last read, or `None` before the first read.
    pub fn seen(&self) -> Option<Lane> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn show(&self, lane: Lane) {
        self.metrics.outbox.paused.set(i64::from(lane.mode() == LaneMode::Paused));
        self.metrics.outbox.rate.set(lane.rate_in_force());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(lane);
    }
}

/// A step that reads the lane with the rights of the viewer role, for a process that serves the API.
#[derive(Debug)]
pub struct LaneWatch<S> {
    store: S,
    state: LaneState,
}

impl<S: ReaderStore> LaneWatch<S> {
    pub const fn new(store: S, state: LaneState) -> Self {
        Self { store, state }
    }
}

impl<S: ReaderStore> Step for LaneWatch<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let standing = self.store.lane().await?;
        self.state.metrics.outbox.inflight.set(i64::from(standing.sending));
        self.state.show(standing.lane);
        Ok(Progress::Idle)
    }
}

/// A step that reads the lane with the rights of the outbox worker and logs each change once, with advice.
#[derive(Debug)]
pub struct LaneObserver<S> {
    store: S,
    state: LaneState,
    logged: LaneMode,
}

impl<S: OutboxWorkerStore> LaneObserver<S> {
    pub const fn new(store: S, state: LaneState) -> Self {
        Self { store, state, logged: LaneMode::Open }
    }

    fn log(&mut self, lane: &Lane) {
        let mode = lane.mode();
        let before = std::mem::replace(&mut self.logged, mode);
        if before == mode {
            return;
        }
        let (from, rate) = (before.as_str(), lane.rate_in_force());
        match mode {
            LaneMode::Paused => tracing::error!(
                from,
                reason = lane.reason,
                "broker lane paused, orders wait: fix the credentials in POSTHASTE_BROKER_HEADERS. Probes detect \
                 when the broker accepts them; to resume at once, POST /v1/outbox/resume"
            ),
            LaneMode::OneAtATime => tracing::warn!(
                from,
                faults_in_row = lane.faults_in_row,
                "broker does not respond, sending one order at a time until it does: check the broker and the network"
            ),
            LaneMode::Throttled => tracing::warn!(
                from,
                rate,
                "broker returned 429, throttling the lane; the rate rises again with each success"
            ),
            LaneMode::Open => tracing::info!(from, "broker lane open again"),
        }
    }
}

impl<S: OutboxWorkerStore> Step for LaneObserver<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let lane = self.store.load_lane().await?;
        self.log(&lane);
        self.state.show(lane);
        Ok(Progress::Idle)
    }
}
