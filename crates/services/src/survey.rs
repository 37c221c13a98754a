//! Counts every few seconds what waits before each stage, for the metrics and the statistics. The last
//! count is kept for whoever asks, with its time: a store that is away makes it old, not zero.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::now_and_then::NowAndThen;
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{InsightStore, StoreResult, Survey, SurveyRequest};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How often it is counted.
pub const EVERY: Duration = Duration::from_secs(5);
/// The part of the time that counting may take, where a queue is long or nothing that was taken from it can be cleared away.
const SHARE: u32 = 20;
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
    counts: NowAndThen,
}

impl<S: InsightStore> Surveyor<S> {
    pub fn new(store: S, options: SurveyOptions, clock: Clock, metrics: Metrics) -> Self {
        // The service's own pace is `EVERY`; here only what is longer counts.
        let counts = NowAndThen::new(clock, Duration::ZERO, SHARE);
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
        self.counts.taken(now);
        Ok(Progress::Idle)
    }
}
