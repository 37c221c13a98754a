//! Resets jobs whose lease has expired because their worker died or hung, so that another worker can claim
//! them. Never changes a saga.

use crate::clock::{CLOCK_SKEW_MAX, Clock};
use crate::grace::{self, Grace};
use crate::low_water_mark::LowWaterMark;
use crate::metrics::Metrics;
use crate::scan_schedule::ScanSchedule;
use crate::step::{Progress, Step};
use crate::wake::WakeUps;
use posthaste_core::Timestamp;
use posthaste_core::job::ExpiredLease;
use posthaste_core::ports::{CleanerStore, LeaseTake, ResetLease, Stage, StoreResult};
use std::time::Duration;

/// The maximum number of leases that one step resets.
const JOBS_MAX: u32 = 500;
/// The grace period after a clock step back: twice the interval at which clocks are sampled. Until every
/// process has sampled the new time, live workers grant leases that appear to end too far in the future.
const GRACE_AFTER_STEP: Duration = grace::GRACE_MAX;

#[derive(Debug)]
pub struct Cleaner<S> {
    store: S,
    resets_max: u32,
    lease: Duration,
    clock: Clock,
    steps_back: u64,
    wake_ups: WakeUps,
    metrics: Metrics,
    grace: Grace,
    /// The position up to which expired leases were handled. A lease that is locked by a report is skipped; a
    /// full scan finds it if that report fails.
    mark: LowWaterMark<Timestamp>,
    full_scans: ScanSchedule,
}

impl<S: CleanerStore> Cleaner<S> {
    pub fn new(
        store: S,
        lease: Duration,
        resets_max: u32,
        clock: Clock,
        wake_ups: WakeUps,
        metrics: Metrics,
    ) -> Self {
        let (mark, full_scans) = (LowWaterMark::new(), ScanSchedule::new(clock.clone()));
        let steps_back = clock.steps_back();
        Self {
            store,
            lease,
            clock,
            steps_back,
            resets_max,
            wake_ups,
            metrics,
            grace: Grace::None,
            mark,
            full_scans,
        }
    }

    /// Builds a request for expired leases. A lease also counts as expired if it ends further in the future
    /// than twice the configured duration. The factor allows for processes with different settings while the
    /// setting is being changed.
    fn take(&self, from: Option<Timestamp>, jobs_max: u32) -> LeaseTake {
        LeaseTake { from, jobs_max, ahead_max: self.lease.saturating_mul(2) }
    }

    async fn reset(&mut self, take: LeaseTake, now: Timestamp) -> StoreResult<Vec<ResetLease>> {
        let result = self.store.reset_expired_leases(take, self.resets_max, now).await;
        if result.is_err() {
            self.grace.record_outage();
        }
        result
    }

    fn record_reset(&self, reset: &ResetLease) {
        self.metrics.lease_resets.inc();
        let (saga_id, job_id) = (reset.saga_id, reset.job_id);
        let worker_id = reset.worker_id.as_deref();
        let (event_id, lease_expiration) = (reset.event_id, reset.lease_until);
        let correlation_id = reset.correlation_id.as_deref();
        match reset.outcome {
            ExpiredLease::GiveBack { lease_resets, suspect } => {
                self.wake_ups.wake(Stage::Delivery);
                tracing::warn!(
                    correlation_id, %saga_id, %job_id, %event_id, worker_id, %lease_expiration, lease_resets,
                    suspect, status = "Pending",
                    "lease expired, job can be claimed again"
                );
            }
            ExpiredLease::Fail { lease_resets } => {
                self.wake_ups.wake_results([job_id]);
                tracing::error!(
                    correlation_id, %saga_id, %job_id, %event_id, worker_id, %lease_expiration, lease_resets,
                    status = "Failed", error_code = "LEASE_EXPIRED", "lease expired too often, attempt counts as failed"
                );
            }
        }
    }
}

impl<S: CleanerStore> Step for Cleaner<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let steps_back = self.clock.steps_back();
        if self.steps_back != steps_back {
            self.steps_back = steps_back;
            self.grace.start(GRACE_AFTER_STEP, self.clock.now());
        }
        if self.grace.is_outage() {
            self.reset(self.take(Some(now), 0), now).await?;
            self.grace.start(grace::AFTER_OUTAGE, now);
        }
        if let Some(until) = self.grace.end(now) {
            return Ok(Progress::IdleUntil(until));
        }
        let is_full_scan = self.full_scans.is_due(now);
        let from = if is_full_scan { None } else { self.mark.get().filter(|from| *from < now) };
        let reset = self.reset(self.take(from, JOBS_MAX), now).await?;
        reset.iter().for_each(|lease| self.record_reset(lease));
        let may_be_more = reset.len() == JOBS_MAX as usize;
        if is_full_scan {
            let has_found = reset.iter().any(|lease| self.mark.is_above(lease.lease_until));
            self.full_scans.record_page(now, has_found, !may_be_more);
        }
        if may_be_more {
            return Ok(Progress::More);
        }
        self.mark.record(now.before(CLOCK_SKEW_MAX), now);
        Ok(Progress::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::ports::StoreError;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    /// A store that fails as scripted and records its calls.
    #[derive(Debug, Default, Clone)]
    struct Scripted {
        unavailable: Arc<Mutex<VecDeque<bool>>>,
        asked: Arc<Mutex<Vec<LeaseTake>>>,
    }

    impl CleanerStore for Scripted {
        async fn reset_expired_leases(
            &self,
            take: LeaseTake,
            _resets_max: u32,
            _now: Timestamp,
        ) -> StoreResult<Vec<ResetLease>> {
            self.asked.lock().expect("the list").push(take);
            if self.unavailable.lock().expect("the script").pop_front().unwrap_or(false) {
                return Err(StoreError::Unavailable { doing: "testing", source: "no".into() });
            }
            Ok(Vec::new())
        }
    }

    fn second(s: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_secs(s))
    }

    fn cleaner(store: &Scripted, clock: &Clock) -> Cleaner<Scripted> {
        let lease = Duration::from_secs(60);
        Cleaner::new(store.clone(), lease, 3, clock.clone(), WakeUps::alone(), Metrics::new())
    }

    #[tokio::test]
    async fn no_lease_is_reset_in_the_grace_period_after_an_outage() {
        let store =
            Scripted { unavailable: Arc::new(Mutex::new([true, true].into())), ..Scripted::default() };
        let mut cleaner = cleaner(&store, &Clock::fixed(second(0)));
        assert!(cleaner.step(second(0)).await.is_err());
        assert!(cleaner.step(second(1)).await.is_err());
        let wait = Progress::IdleUntil(second(7));
        assert_eq!(cleaner.step(second(2)).await.expect("a step"), wait);
        assert_eq!(cleaner.step(second(6)).await.expect("a step"), wait);
        assert_eq!(cleaner.step(second(7)).await.expect("a step"), Progress::Idle);
        let asked: Vec<u32> =
            store.asked.lock().expect("the list").iter().map(|take| take.jobs_max).collect();
        assert_eq!(asked, [500, 0, 0, 500]);
    }

    #[tokio::test]
    async fn no_lease_is_reset_until_every_process_has_sampled_a_clock_step_back() {
        let (store, clock) = (Scripted::default(), Clock::fixed(second(3_600)));
        let mut cleaner = cleaner(&store, &clock);
        cleaner.step(second(3_600)).await.expect("a step");
        clock.set(second(100));
        let wait = Progress::IdleUntil(second(110));
        for (s, expected) in [(100, wait), (109, wait), (110, Progress::Idle)] {
            clock.set(second(s));
            assert_eq!(cleaner.step(second(s)).await.expect("a step"), expected, "at {s} s");
        }
        assert_eq!(store.asked.lock().expect("the list").len(), 2);
    }

    #[tokio::test]
    async fn reads_start_at_the_mark_and_a_full_scan_runs_every_second() {
        let store = Scripted::default();
        let clock = Clock::fixed(second(0));
        let mut cleaner = cleaner(&store, &clock);
        let at = |ms| second(0).after(Duration::from_millis(ms));
        for ms in [5_000, 5_300, 5_600, 6_000, 6_300, 5_500] {
            clock.set(at(ms));
            cleaner.step(clock.now()).await.expect("a step");
        }
        let from: Vec<_> = store.asked.lock().expect("the list").iter().map(|take| take.from).collect();
        // The mark lags by one window. The last step runs after a small clock step back.
        assert_eq!(from, [None, Some(at(4_900)), Some(at(4_900)), None, Some(at(5_500)), None]);
    }
}
