//! Gives back jobs whose worker died or hangs (leased by the worker), so that another takes them.
//! Never touches a saga.

use crate::clock::is_due;
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use crate::wake::Wakes;
use posthaste_core::Timestamp;
use posthaste_core::job::ExpiredLease;
use posthaste_core::ports::{CleanerStore, ResetLease, Stage, StoreResult};
use std::time::Duration;

/// The most leases of one step.
const JOBS_MAX: u32 = 500;
/// How long expired leases are left alone after the store was away: reports that waited for it land
/// first.
const WAIT_AFTER_OUTAGE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Cleaner<S> {
    store: S,
    resets_max: u32,
    wakes: Wakes,
    metrics: Metrics,
    outage: Outage,
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
    pub const fn new(store: S, resets_max: u32, wakes: Wakes, metrics: Metrics) -> Self {
        Self { store, resets_max, wakes, metrics, outage: Outage::None }
    }

    async fn reset(&mut self, jobs_max: u32, now: Timestamp) -> StoreResult<Vec<ResetLease>> {
        let answer = self.store.reset_expired_leases(jobs_max, self.resets_max, now).await;
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
            self.reset(0, now).await?;
            self.outage = Outage::OverUntil(now.after(WAIT_AFTER_OUTAGE));
        }
        if let Outage::OverUntil(until) = self.outage {
            if !is_due(until, WAIT_AFTER_OUTAGE, now) {
                return Ok(Progress::IdleUntil(until));
            }
            self.outage = Outage::None;
        }
        let reset = self.reset(JOBS_MAX, now).await?;
        reset.iter().for_each(|lease| self.tell(lease));
        Ok(if reset.len() < JOBS_MAX as usize { Progress::Idle } else { Progress::More })
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
        asked: Arc<Mutex<Vec<u32>>>,
    }

    impl CleanerStore for Scripted {
        async fn reset_expired_leases(
            &self,
            jobs_max: u32,
            _resets_max: u32,
            _now: Timestamp,
        ) -> StoreResult<Vec<ResetLease>> {
            self.asked.lock().expect("the list").push(jobs_max);
            if self.away.lock().expect("the script").pop_front().unwrap_or(false) {
                return Err(StoreError::Unavailable { doing: "testing", source: "no".into() });
            }
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn leases_are_left_alone_for_a_while_after_an_outage() {
        let store = Scripted { away: Arc::new(Mutex::new([true, true].into())), ..Scripted::default() };
        let mut cleaner = Cleaner::new(store.clone(), 3, Wakes::alone(), Metrics::new());
        let second = |s| Timestamp::from_micros(0).after(Duration::from_secs(s));
        assert!(cleaner.step(second(0)).await.is_err());
        assert!(cleaner.step(second(1)).await.is_err());
        let wait = Progress::IdleUntil(second(7));
        assert_eq!(cleaner.step(second(2)).await.expect("a step"), wait);
        assert_eq!(cleaner.step(second(6)).await.expect("a step"), wait);
        assert_eq!(cleaner.step(second(7)).await.expect("a step"), Progress::Idle);
        assert_eq!(*store.asked.lock().expect("the list"), [500, 0, 0, 500]);
    }
}
