//! Creates jobs for due sagas, round-robin over subscriptions and up to the in-flight limit of each; workers
//! claim the jobs. Subscriptions with due sagas come from a router in the same process, from reads of
//! recently due sagas, and from a scan over all subscriptions with unfinished sagas.

use super::InFlight;
use super::due::DueQueue;
use crate::clock::{CLOCK_SKEW_MAX, Clock, is_due};
use crate::metrics::Metrics;
use crate::scan_schedule::ScanSchedule;
use crate::step::{Progress, Step};
use crate::wake::WakeUps;
use posthaste_core::ports::{Admitted, DeadLetteredSaga, OrchestratorStore, Stage, StoreResult};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

pub(super) const SERVICE: &str = "admission";

/// The maximum number of jobs that one step creates.
const JOBS_MAX: u32 = 1_000;
/// The maximum number of recently due sagas that one step reads for each waiting state.
const SAGAS_MAX: u32 = 1_000;
/// The interval between reads of recently due sagas while other work is known.
const READ_EVERY: Duration = Duration::from_millis(20);
/// The maximum number of subscriptions probed by one page of a scan. A probe takes about 17 µs on PostgreSQL.
const PROBES_MAX: u32 = 256;

#[derive(Debug)]
pub struct Admission<S> {
    store: S,
    policy: RetryPolicy,
    in_flight: InFlight,
    clock: Clock,
    wake_ups: WakeUps,
    metrics: Metrics,
    due: DueQueue,
    recent: RecentReads,
    /// The schedule of scans over all subscriptions with unfinished sagas. A scan finds resumed
    /// subscriptions, and sagas committed too late for the reads of recently due sagas.
    scan: ScanSchedule,
    /// The last subscription of the previous page, or `None` if no scan is running.
    scanned: Option<SubscriptionId>,
}

/// The position of reads of recently due sagas.
#[derive(Debug)]
struct RecentReads {
    /// The time before which all due sagas were read.
    from: Timestamp,
    last: Timestamp,
    /// Whether the last read returned a full page.
    has_more: bool,
}

impl RecentReads {
    fn is_due(&self, now: Timestamp) -> bool {
        self.has_more || is_due(self.last.after(READ_EVERY), READ_EVERY, now)
    }

    /// Returns the start of a read at `now`. A position in the future, stored before a clock step back, is
    /// ignored.
    fn from(&self, now: Timestamp) -> Timestamp {
        if self.from <= now { self.from } else { recent(now) }
    }

    /// Records a read at `now` that covered all sagas due before `until`, or all due sagas if `None`. Returns
    /// `false` if the read made no progress because more sagas came due at one instant than a read returns.
    fn record(&mut self, until: Option<Timestamp>, now: Timestamp) -> bool {
        let from = self.from(now);
        let until = until.filter(|until| *until < now);
        self.has_more = until.is_some_and(|until| until > from);
        self.from = until.filter(|_| self.has_more).unwrap_or_else(|| recent(now));
        self.last = now;
        until.is_none() || self.has_more
    }
}

/// Returns the start of the period in which new sagas may still appear. A process whose clock is behind, or
/// whose commit was slow, creates sagas older than those already read.
fn recent(now: Timestamp) -> Timestamp {
    now.before(CLOCK_SKEW_MAX)
}

impl<S: OrchestratorStore> Admission<S> {
    pub fn new(
        store: S,
        policy: RetryPolicy,
        in_flight: InFlight,
        clock: Clock,
        wake_ups: WakeUps,
        metrics: Metrics,
    ) -> Self {
        let (due, scan) = (DueQueue::default(), ScanSchedule::new(clock.clone()));
        let recent = RecentReads { from: Timestamp::MAX, last: Timestamp::MIN, has_more: false };
        Self { store, policy, in_flight, clock, wake_ups, metrics, due, recent, scan, scanned: None }
    }

    async fn read_recent(&mut self, now: Timestamp) -> StoreResult<()> {
        let found = self.store.find_recently_due(self.recent.from(now), SAGAS_MAX, now).await?;
        found.due.into_iter().for_each(|due| self.due.add(due));
        if !self.recent.record(found.until, now) {
            self.scan.request();
        }
        Ok(())
    }

    async fn scan_page(&mut self, now: Timestamp) -> StoreResult<()> {
        let recent = self.recent.from(now);
        let page = self.store.find_due_subscriptions(self.scanned, PROBES_MAX, now).await?;
        let has_found = page.due.iter().any(|due| self.due.would_miss(*due, recent));
        page.due.into_iter().for_each(|due| self.due.add(due));
        self.scanned = page.next;
        self.scan.record_page(now, has_found, page.next.is_none());
        Ok(())
    }

    async fn count(&self, now: Timestamp) -> StoreResult<()> {
        let ids = self.in_flight.to_count(self.due.subscriptions(), now);
        if !ids.is_empty() {
            let began = self.clock.now();
            let counts = self.store.count_in_flight(ids.clone(), self.in_flight.in_flight_max()).await?;
            self.in_flight.counted(&ids, &counts, self.clock.now().since(began), now);
        }
        Ok(())
    }

    async fn admit(&mut self, now: Timestamp) -> StoreResult<()> {
        let quotas = self.due.quotas(&self.in_flight, JOBS_MAX);
        if quotas.is_empty() {
            return Ok(());
        }
        let admitted = self.store.admit_due_sagas(quotas.clone(), self.policy, now).await?;
        self.in_flight.admitted(&admitted.jobs);
        self.due.served(&quotas, &admitted, now);
        self.record_admitted(&admitted);
        Ok(())
    }

    /// Returns whether any subscription with known due sagas is below its in-flight limit.
    fn has_work(&self) -> bool {
        self.in_flight.free(self.due.subscriptions()).iter().any(|free| *free > 0)
    }

    fn record_admitted(&self, admitted: &Admitted) {
        if !admitted.jobs.is_empty() {
            self.metrics.jobs_admitted.inc_by(admitted.jobs.len() as u64);
            self.metrics.batch(SERVICE, admitted.jobs.len());
            self.wake_ups.wake(Stage::Delivery);
        }
        for job in &admitted.jobs {
            let (saga_id, job_id, event_id) = (job.saga_id, job.job_id, job.event_id);
            let subscription_id = job.subscription_id;
            tracing::trace!(
                %saga_id, %job_id, %event_id, %subscription_id, status = "InProgress", "attempt admitted"
            );
        }
        for DeadLetteredSaga { saga_id, event_id, subscription_id } in &admitted.dead_lettered {
            self.metrics.dead_letters.inc();
            tracing::warn!(
                %saga_id, %event_id, %subscription_id, status = "DeadLettered",
                "dead-lettered, its attempt limit was lowered below its attempt count"
            );
        }
    }
}

impl<S: OrchestratorStore> Step for Admission<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        if self.scan.is_due(now) {
            self.scan_page(now).await?;
        }
        self.wake_ups.take_due().into_iter().for_each(|due| self.due.add(due));
        // Sagas from a router in this process are admitted before the read, which increases throughput on
        // SQLite by 5 %.
        let had_work = self.has_work();
        if !had_work {
            self.read_recent(now).await?;
        }
        self.count(now).await?;
        self.admit(now).await?;
        if had_work && self.recent.is_due(now) {
            self.read_recent(now).await?;
        }
        let has_more = self.has_work() || self.recent.has_more || self.scan.is_running();
        Ok(if has_more { Progress::More } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests;
