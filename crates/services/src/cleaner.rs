//! Gives back jobs whose worker died or hangs (leased by the worker), so that another takes them.
//! Never touches a saga.

use crate::clock::{CLOCKS_DIFFER_MAX, Clock, is_due};
use crate::metrics::Metrics;
use crate::now_and_then::NowAndThen;
use crate::step::{Progress, Step};
use crate::wake::Wakes;
use posthaste_core::Timestamp;
use posthaste_core::job::ExpiredLease;
use posthaste_core::ports::{CleanerStore, LeaseTake, ResetLease, Stage, StoreResult};
use std::time::Duration;

/// The most leases of one step.
const JOBS_MAX: u32 = 500;
/// How long expired leases are left alone after the store was away: reports that waited for it land
/// first.
const WAIT_AFTER_OUTAGE: Duration = Duration::from_secs(5);

/// How often all leases that ran out are looked at, and not only those that did since the last look: one whose report
/// was being written is left out, and the report may have come to nothing.
const FULL_PASS_EVERY: Duration = Duration::from_secs(10);
/// And at most this part of the time.
const FULL_PASS_SHARE: u32 = 100;

#[derive(Debug)]
pub struct Cleaner<S> {
    store: S,
    resets_max: u32,
    wakes: Wakes,
    metrics: Metrics,
    outage: Outage,
    /// Leases that ran out before were looked at.
    from: Option<Timestamp>,
    full_pass: NowAndThen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    None,
    /// The store failed, and has not answered since.
    Lasts,
    /// It answers again; leases are left alone until this time.
    OverUntil(Timestamp),
}

impl<S: CleanerStore> Cleaner<S> {
    pub const fn new(store: S, resets_max: u32, clock: Clock, wakes: Wakes, metrics: Metrics) -> Self {
        let full_pass = NowAndThen::new(clock, FULL_PASS_EVERY, FULL_PASS_SHARE);
        Self { store, resets_max, wakes, metrics, outage: Outage::None, from: None, full_pass }
    }

    async fn reset(&mut self, take: LeaseTake, now: Timestamp) -> StoreResult<Vec<ResetLease>> {
        let answer = self.store.reset_expired_leases(take, self.resets_max, now).await;
        if answer.is_err() {
            self.outage = Outage::Lasts;
        }
        answer
    }

    fn tell(&self, reset: &ResetLease) {
        self.metrics.lease_resets.inc();
        let (saga_id, job_id) = (reset.saga_id, reset.job_id);
        let worker_id = reset.worker_id.as_deref();
        let (event_id, lease_expiration) = (reset.event_id, reset.lease_until);
        let correlation_id = reset.correlation_id.as_deref();
        match reset.outcome {
            ExpiredLease::GiveBack { lease_resets } => {
                self.wakes.wake(Stage::Delivery);
                tracing::warn!(
                    correlation_id, %saga_id, %job_id, %event_id, worker_id, %lease_expiration, lease_resets,
                    status = "Pending",
                    "lease ran out: the job is given to another worker"
                );
            }
            ExpiredLease::Fail { lease_resets } => {
                self.wakes.wake(Stage::Results);
                tracing::error!(
                    correlation_id, %saga_id, %job_id, %event_id, worker_id, %lease_expiration, lease_resets,
                    status = "Failed", error_code = "LEASE_EXPIRED", "lease ran out too often: the attempt counts as failed"
                );
            }
        }
    }
}

impl<S: CleanerStore> Step for Cleaner<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        if self.outage == Outage::Lasts {
            // Asks for nothing, to learn whether the store answers.
            self.reset(LeaseTake { from: Some(now), jobs_max: 0 }, now).await?;
            self.outage = Outage::OverUntil(now.after(WAIT_AFTER_OUTAGE));
        }
        if let Outage::OverUntil(until) = self.outage {
            if !is_due(until, WAIT_AFTER_OUTAGE, now) {
                return Ok(Progress::IdleUntil(until));
            }
            self.outage = Outage::None;
        }
        let full = self.full_pass.is_due(now);
        let from = if full { None } else { self.from.filter(|from| *from < now) };
        let reset = self.reset(LeaseTake { from, jobs_max: JOBS_MAX }, now).await?;
        reset.iter().for_each(|lease| self.tell(lease));
        if reset.len() == JOBS_MAX as usize {
            return Ok(Progress::More);
        }
        if full {
            self.full_pass.taken(now);
        }
        self.from = Some(now.before(CLOCKS_DIFFER_MAX));
        Ok(Progress::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::ports::StoreError;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    /// Fails while the script says so, and keeps how much it was asked for.
    #[derive(Debug, Default, Clone)]
    struct Scripted {
        away: Arc<Mutex<VecDeque<bool>>>,
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
            if self.away.lock().expect("the script").pop_front().unwrap_or(false) {
                return Err(StoreError::Unavailable { doing: "testing", source: "no".into() });
            }
            Ok(Vec::new())
        }
    }

    fn second(s: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_secs(s))
    }

    fn cleaner(store: &Scripted) -> Cleaner<Scripted> {
        Cleaner::new(store.clone(), 3, Clock::standing(second(0)), Wakes::alone(), Metrics::new())
    }

    #[tokio::test]
    async fn leases_are_left_alone_for_a_while_after_an_outage() {
        let store = Scripted { away: Arc::new(Mutex::new([true, true].into())), ..Scripted::default() };
        let mut cleaner = cleaner(&store);
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
    async fn goes_from_the_last_look_and_from_the_oldest_now_and_then() {
        let store = Scripted::default();
        let mut cleaner = cleaner(&store);
        for s in [0, 5, 9, 10, 15, 3] {
            cleaner.step(second(s)).await.expect("a step");
        }
        let from: Vec<_> = store.asked.lock().expect("the list").iter().map(|take| take.from).collect();
        let since = |s| Some(second(s).before(CLOCKS_DIFFER_MAX));
        // At last the clock was set back.
        assert_eq!(from, [None, since(0), since(5), None, since(10), None]);
    }
}
