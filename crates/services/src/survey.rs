//! Counts every few seconds what waits before each stage, for the metrics and the statistics. The last
//! count is kept for whoever asks, with its time: a store that is away makes it old, not zero.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::scan_schedule::ScanSchedule;
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{InsightStore, StoreResult, Survey, SurveyRequest};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How often it is counted.
pub const EVERY: Duration = Duration::from_secs(5);
/// How seldom where counting is slow: a queue is long, or rows that were taken from it could not be cleared away.
const EVERY_SLOW: Duration = Duration::from_secs(60);
/// The cleaner gives leases back within this time after they ran out, also after an outage.
const LEASE_SLACK: Duration = Duration::from_secs(30);
/// The same for orders and the worker that rewinds them.
const ORDER_SLACK: Duration = Duration::from_secs(60);

/// By which times something hangs.
#[derive(Debug, Clone, Copy)]
pub struct SurveyOptions {
    pub lease: Duration,
    /// How often the cleaner looks.
    pub cleaner_interval: Duration,
    /// How long an order may be `sending`.
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

/// The last survey and its time; nothing before the first. Clones share it.
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
        // The service steps every `EVERY`; the schedule must not miss a step by the time that counting takes.
        let counts = ScanSchedule::with_intervals(clock, EVERY / 2, EVERY_SLOW);
        Self { store, options, metrics, last: LastSurvey::default(), counts }
    }

    /// Where the last survey can be read.
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
