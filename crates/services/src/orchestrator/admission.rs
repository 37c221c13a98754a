//! Starts the attempts that are due, round-robin over subscriptions and bounded for each: makes the
//! jobs that workers claim. Which subscriptions have something due is told by a router in the same process,
//! found among what came due lately, and now and then by a scan over all that have unfinished sagas; those that
//! are known to are served without looking again.

use super::Flows;
use crate::clock::{CLOCKS_DIFFER_MAX, Clock, is_due};
use crate::metrics::Metrics;
use crate::now_and_then::NowAndThen;
use crate::step::{Progress, Step};
use crate::wake::Wakes;
use posthaste_core::ports::{Admitted, GivenUp, OrchestratorStore, Stage, StoreResult};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

pub(super) const SERVICE: &str = "admission";

/// The most jobs of one step.
const JOBS_MAX: u32 = 1_000;
/// The most sagas in each waiting state that one look at what came due lately reads.
const SAGAS_MAX: u32 = 1_000;
/// How often one looks while there is something to do that is known already.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The most subscriptions that one page of a scan looks at; one costs about 17 µs on PostgreSQL.
const PROBES_MAX: u32 = 256;
/// How often all subscriptions are scanned: for those that were resumed with deliveries that had come due before, and
/// for what was committed so late that no look saw it.
const SCAN_EVERY: Duration = Duration::from_millis(200);
/// And at most this part of the time: where thousands of subscriptions have unfinished deliveries, scanning must not
/// be all that the database does.
const SCAN_SHARE: u32 = 20;

#[derive(Debug)]
pub struct Admission<S> {
    store: S,
    policy: RetryPolicy,
    flows: Flows,
    clock: Clock,
    wakes: Wakes,
    metrics: Metrics,
    looks: Looks,
    scan: Scan,
}

/// The looks at what came due lately.
#[derive(Debug, Default)]
struct Looks {
    /// What came due before was seen.
    since: Option<Timestamp>,
    last: Option<Timestamp>,
    /// The last one could not read all there was.
    more: bool,
}

impl Looks {
    fn is_due(&self, now: Timestamp) -> bool {
        self.more || self.last.is_none_or(|last| is_due(last.after(LOOK_EVERY), LOOK_EVERY, now))
    }

    /// From where to look; from now if the clock was set back since.
    fn since(&self, now: Timestamp) -> Timestamp {
        self.since.filter(|since| *since <= now).unwrap_or_else(|| now.before(CLOCKS_DIFFER_MAX))
    }

    /// Takes note of a look from `since` that saw everything up to `until`. Answers whether it got anywhere: so many may
    /// come due in one moment that no look holds them.
    fn looked(&mut self, since: Timestamp, until: Timestamp, now: Timestamp) -> bool {
        let all = until >= now;
        self.last = Some(now);
        self.more = !all && until > since;
        self.since = Some(if all {
            // What another process made with a clock that is behind, or was slow to commit, comes due before what was seen.
            now.before(CLOCKS_DIFFER_MAX)
        } else if self.more {
            until
        } else {
            now
        });
        all || self.more
    }
}

/// How far the scan over the subscriptions has come.
#[derive(Debug)]
struct Scan {
    after: Option<SubscriptionId>,
    /// How long its pages took.
    took: Duration,
    scans: NowAndThen,
}

impl Scan {
    const fn is_under_way(&self) -> bool {
        self.after.is_some()
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.is_under_way() || self.scans.is_due(now)
    }

    /// Takes note of a page that began at `now` and ended before `next`.
    fn looked(&mut self, next: Option<SubscriptionId>, now: Timestamp) {
        self.after = next;
        self.took += self.scans.took(now);
        if next.is_none() {
            self.scans.taken_in(std::mem::take(&mut self.took), now);
        }
    }
}

impl<S: OrchestratorStore> Admission<S> {
    pub fn new(
        store: S,
        policy: RetryPolicy,
        flows: Flows,
        clock: Clock,
        wakes: Wakes,
        metrics: Metrics,
    ) -> Self {
        let scans = NowAndThen::new(clock.clone(), SCAN_EVERY, SCAN_SHARE);
        let scan = Scan { after: None, took: Duration::ZERO, scans };
        Self { store, policy, flows, clock, wakes, metrics, looks: Looks::default(), scan }
    }

    /// Finds subscriptions that have something due: less often while some are known that have.
    async fn find(&mut self, some_are_known: bool, now: Timestamp) -> StoreResult<()> {
        self.scan(now).await?;
        if self.looks.is_due(now) || !(some_are_known || self.flows.has_room()) {
            self.look(now).await?;
        }
        Ok(())
    }

    /// Looks at what came due lately.
    async fn look(&mut self, now: Timestamp) -> StoreResult<()> {
        let since = self.looks.since(now);
        let found = self.store.find_lately_due(since, SAGAS_MAX, now).await?;
        self.flows.found_due(found.subscriptions);
        if !self.looks.looked(since, found.until, now) {
            self.scan.scans.at_once();
        }
        Ok(())
    }

    async fn scan(&mut self, now: Timestamp) -> StoreResult<()> {
        if self.scan.is_due(now) {
            let found = self.store.find_due_subscriptions(self.scan.after, PROBES_MAX, now).await?;
            self.flows.found_due_since(&found.due);
            self.scan.looked(found.next, now);
        }
        Ok(())
    }

    async fn count(&self, now: Timestamp) -> StoreResult<()> {
        let ids = self.flows.to_count(now);
        if !ids.is_empty() {
            let began = self.clock.now();
            let counts = self.store.count_in_flight(ids.clone(), self.flows.in_flight_max()).await?;
            self.flows.counted(&ids, &counts, self.clock.now().since(began), now);
        }
        Ok(())
    }

    async fn admit(&mut self, now: Timestamp) -> StoreResult<()> {
        let quotas = self.flows.quotas(JOBS_MAX, now);
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
        // Those who are known need not wait until others were looked for: half a millisecond on PostgreSQL, or a whole
        // one with a scan.
        let some_are_known = self.flows.has_room();
        if !some_are_known {
            self.find(false, now).await?;
        }
        self.count(now).await?;
        self.admit(now).await?;
        if some_are_known {
            self.find(true, now).await?;
        }
        let more = self.flows.has_room() || self.looks.more || self.scan.is_under_way();
        Ok(if more { Progress::More } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests;
