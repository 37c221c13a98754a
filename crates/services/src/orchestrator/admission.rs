//! Starts the attempts that are due, round-robin over subscriptions and bounded for each: makes the
//! jobs that workers claim. A scan finds which subscriptions have something due; those that are known
//! to are served without looking again.

use super::Flows;
use crate::clock::is_due;
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use crate::wake::Wakes;
use posthaste_core::ports::{Admitted, GivenUp, OrchestratorStore, Stage, StoreResult};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

pub(super) const SERVICE: &str = "admission";

/// The most jobs of one step.
const JOBS_MAX: u32 = 1_000;
/// The most subscriptions that one step looks at; one costs about 17 µs on PostgreSQL.
const PROBES_MAX: u32 = 256;
/// The pause after a scan, for each page of [`PROBES_MAX`] beyond the first: where thousands of
/// subscriptions have unfinished deliveries, scanning must not be all that the database does.
const PAUSE_PER_PAGE: Duration = Duration::from_millis(15);

#[derive(Debug)]
pub struct Admission<S> {
    store: S,
    policy: RetryPolicy,
    flows: Flows,
    wakes: Wakes,
    metrics: Metrics,
    scan: Scan,
}

/// How far the scan over the subscriptions has come.
#[derive(Debug)]
struct Scan {
    after: Option<SubscriptionId>,
    pages: u32,
    /// The pause after the last one, and when the next one may begin.
    pause: Duration,
    from: Timestamp,
}

impl Scan {
    const fn is_under_way(&self) -> bool {
        self.after.is_some()
    }

    fn may_begin(&self, now: Timestamp) -> bool {
        is_due(self.from, self.pause, now)
    }

    /// Takes note of a page that ended at `next`.
    fn looked(&mut self, next: Option<SubscriptionId>, now: Timestamp) {
        self.after = next;
        if next.is_some() {
            self.pages += 1;
        } else {
            self.pause = PAUSE_PER_PAGE * self.pages;
            self.from = now.after(self.pause);
            self.pages = 0;
        }
    }
}

impl<S: OrchestratorStore> Admission<S> {
    pub const fn new(store: S, policy: RetryPolicy, flows: Flows, wakes: Wakes, metrics: Metrics) -> Self {
        let scan = Scan { after: None, pages: 0, pause: Duration::ZERO, from: Timestamp::MIN };
        Self { store, policy, flows, wakes, metrics, scan }
    }

    async fn look(&mut self, now: Timestamp) -> StoreResult<()> {
        if !self.scan.is_under_way() && !self.scan.may_begin(now) {
            return Ok(());
        }
        let found = self.store.find_due_subscriptions(self.scan.after, PROBES_MAX, now).await?;
        self.flows.found_due(&found.due);
        self.scan.looked(found.next, now);
        Ok(())
    }

    async fn count(&self, now: Timestamp) -> StoreResult<()> {
        let ids = self.flows.to_count(now);
        if !ids.is_empty() {
            let counts = self.store.count_in_flight(ids.clone(), self.flows.in_flight_max()).await?;
            self.flows.counted(&ids, &counts, now);
        }
        Ok(())
    }

    async fn admit(&self, now: Timestamp) -> StoreResult<()> {
        let quotas = self.flows.quotas(JOBS_MAX);
        if quotas.is_empty() {
            return Ok(());
        }
        let admitted = self.store.admit_due_sagas(quotas.clone(), self.policy, now).await?;
        self.flows.admitted(&quotas, &admitted);
        self.tell(&admitted);
        Ok(())
    }

    fn tell(&self, admitted: &Admitted) {
        if !admitted.jobs.is_empty() {
            self.metrics.jobs_admitted.inc_by(admitted.jobs.len() as u64);
            self.metrics.batch(SERVICE, admitted.jobs.len());
            self.wakes.wake(Stage::Delivery);
        }
        for job in &admitted.jobs {
            let (saga_id, job_id, event_id) = (job.saga_id, job.job_id, job.event_id);
            let subscription_id = job.subscription_id;
            tracing::trace!(
                %saga_id, %job_id, %event_id, %subscription_id, status = "InProgress", "attempt admitted"
            );
        }
        for GivenUp { saga_id, event_id, subscription_id } in &admitted.dead_lettered {
            self.metrics.dead_letters.inc();
            tracing::warn!(
                %saga_id, %event_id, %subscription_id, status = "DeadLettered",
                "given up: its limit of attempts was lowered while it waited"
            );
        }
    }
}

impl<S: OrchestratorStore> Step for Admission<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.look(now).await?;
        self.count(now).await?;
        self.admit(now).await?;
        Ok(if self.flows.has_room() || self.scan.is_under_way() {
            Progress::More
        } else if !self.scan.may_begin(now) {
            Progress::IdleUntil(self.scan.from)
        } else {
            Progress::Idle
        })
    }
}

#[cfg(test)]
mod tests;
