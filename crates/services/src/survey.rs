//! Counts the backlog of each stage every few seconds, for metrics and statistics. The last result is kept
//! with its time, so that during an outage of the store the numbers become stale rather than zero.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::scan_schedule::ScanSchedule;
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{InsightStore, StoreResult, Survey, SurveyRequest};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The interval between surveys.
pub const EVERY: Duration = Duration::from_secs(5);
/// The maximum interval while counting is slow because a queue is long or its dequeued rows cannot be
/// vacuumed.
const EVERY_SLOW: Duration = Duration::from_secs(60);
/// The time within which the cleaner resets an expired lease, including the grace period after an outage.
const LEASE_SLACK: Duration = Duration::from_secs(30);
/// The time within which a stuck order is reclaimed, including the grace period after an outage.
const ORDER_SLACK: Duration = Duration::from_secs(60);

/// The settings that determine when rows count as stuck.
#[derive(Debug, Clone, Copy)]
pub struct SurveyOptions {
    pub lease: Duration,
    /// The polling interval of the cleaner.
    pub cleaner_interval: Duration,
    /// The maximum time for which an order may be in the state `sending`.
    pub order_stuck_after: Duration,
}

impl SurveyOptions {
    pub fn request(&self, now: Timestamp) -> SurveyRequest {
        SurveyRequest {
            now,
            lease: self.lease,
            jobs_stuck_before: now.before(self.cleaner_interval.saturating_mul(2).max(LEASE_SLACK)),
            orders_stuck_before: now.before(self.order_stuck_after.saturating_add(ORDER_SLACK)),
        }
    }
}

/// The last survey and its time, or `None` before the first survey. Clones share the value.
#[derive(Debug, Clone, Default)]
pub struct LastSurvey(Arc<RwLock<Option<(Survey, Timestamp)>>>);

impl LastSurvey {
    pub fn get(&self) -> Option<(Survey, Timestamp)> {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, survey: Survey, at: Timestamp) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some((survey, at));
    }
}

#[derive(Debug)]
pub struct Surveyor<S> {
    store: S,
    options: SurveyOptions,
    metrics: Metrics,
    last: LastSurvey,
    counts: ScanSchedule,
}

impl<S: InsightStore> Surveyor<S> {
    pub fn new(store: S, options: SurveyOptions, clock: Clock, metrics: Metrics) -> Self {
        // The service runs every `EVERY`. The schedule uses a shorter interval, so that the time taken by a
        // count does not cause a run to be skipped.
        let counts = ScanSchedule::with_intervals(clock, EVERY / 2, EVERY_SLOW);
        Self { store, options, metrics, last: LastSurvey::default(), counts }
    }

    /// Returns a handle to the last survey.
    pub fn last(&self) -> LastSurvey {
        self.last.clone()
    }
}

impl<S: InsightStore> Step for Surveyor<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        if !self.counts.is_due(now) {
            return Ok(Progress::Unasked);
        }
        let survey = self.store.survey(self.options.request(now)).await?;
        self.metrics.surveyed(&survey, now);
        self.last.set(survey, now);
        self.counts.record_page(now, false, true);
        Ok(Progress::Idle)
    }
}
