//! Claims jobs created by the orchestrator, sends them and reports their outcomes. Never changes a saga.
//!
//! A step claims at most as many jobs as there are free slots, reads each distinct event and subscription
//! once, and spawns the attempts; it does not wait for receivers. Each attempt reports through the
//! [`Reports`] batcher and frees its slot when the report is accepted or refused.

mod deliver;
mod reports;
mod suspects;

use crate::batcher::Batcher;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::oauth2::TokenCache;
use crate::read_position::ReadPosition;
use crate::seal::SecretSealer;
use crate::send_tasks::{SendTasks, Slots};
use crate::sender::Sender;
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use crate::webhook_request::InstallationNames;
use deliver::{Deliverer, LoadedJob};
use posthaste_core::ports::{Claim, ClaimedJob, JobReport, Report, StoreError, StoreResult, WorkerStore};
use posthaste_core::{LeaseToken, Timestamp, WorkerId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use suspects::Suspects;

pub use reports::{Reports, SERVICE as REPORTS};

/// The maximum number of jobs in one claim.
const JOBS_MAX: u32 = 500;
/// The maximum time for which freed slots stay empty while more jobs may be waiting.
const REFILL_WAIT: Duration = Duration::from_millis(10);

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub worker_id: WorkerId,
    pub lease: Duration,
    /// The time limit for a whole exchange. Must be well below the lease.
    pub deadline: Duration,
    /// The maximum number of concurrent exchanges.
    pub slots: u32,
}

/// The dependencies of a worker other than its store.
#[derive(Debug, Clone)]
pub struct WorkerKit {
    pub sender: Sender,
    pub sealer: Arc<SecretSealer>,
    /// The access tokens of OAuth 2, shared by the process.
    pub tokens: TokenCache,
    pub names: InstallationNames,
    pub reports: Batcher<JobReport, Report>,
    pub clock: Clock,
    pub metrics: Metrics,
    /// The wake-up that is notified when slots that the worker waits for are freed.
    pub wake_up: WakeUp,
}

/// A function that generates a new token of 128 random bits.
pub type DrawToken = Box<dyn Fn() -> LeaseToken + Send + Sync>;

pub struct Worker<S> {
    store: S,
    options: WorkerOptions,
    draw_token: DrawToken,
    deliverer: Arc<Deliverer<S>>,
    slots: Slots,
    attempts: SendTasks<(ClaimedJob, LeaseToken)>,
    /// Claimed jobs whose events and subscriptions have not been read yet.
    unread: Vec<ClaimedJob>,
    unread_token: LeaseToken,
    position: ReadPosition<Timestamp>,
    suspects: Suspects,
}

impl<S: fmt::Debug> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<S: WorkerStore + Clone> Worker<S> {
    pub fn new(store: S, options: WorkerOptions, kit: WorkerKit, draw_token: DrawToken) -> Self {
        // While all slots are occupied and more jobs are waiting, the worker claims again when a quarter of
        // the slots are free, so that claims stay large. If slow receivers occupy more than three quarters,
        // `REFILL_WAIT` limits the time for which freed slots stay empty.
        let slots = Slots::new(options.slots, options.slots / 4, kit.wake_up.clone());
        let suspects = Suspects::new(kit.wake_up.clone());
        let position = ReadPosition::new(kit.clock.clone());
        let deliverer = Arc::new(Deliverer::new(store.clone(), kit, &options));
        Self {
            store,
            options,
            draw_token,
            deliverer,
            slots,
            attempts: SendTasks::new(|(job, _)| {
                let (saga_id, job_id) = (job.saga_id, job.job_id);
                tracing::error!(%saga_id, %job_id, "attempt panicked, waiting for its lease to expire");
            }),
            unread: Vec::new(),
            unread_token: LeaseToken::from_random(0),
            position,
            suspects,
        }
    }

    /// Waits until every attempt in flight has finished and its outcome is reported.
    pub async fn settle(&mut self) {
        self.attempts.settle().await;
    }

    /// Creates a claim with a new token.
    fn new_claim(&self, from: Option<Timestamp>, jobs_max: u32) -> Claim {
        Claim {
            worker_id: self.options.worker_id.clone(),
            token: (self.draw_token)(),
            lease: self.options.lease,
            from,
            jobs_max,
        }
    }

    /// Claims a suspect. Returns whether there was one.
    async fn claim_suspect(&mut self, now: Timestamp) -> StoreResult<bool> {
        let claim = self.new_claim(None, 1);
        self.unread_token = claim.token;
        self.unread.extend(self.store.claim_suspect_job(claim, now).await?);
        let found = !self.unread.is_empty();
        self.suspects.polled(found, now);
        Ok(found)
    }

    /// Claims up to `jobs_max` jobs.
    async fn claim(&mut self, jobs_max: u32, now: Timestamp) -> StoreResult<()> {
        let claim = self.new_claim(self.position.from(now), jobs_max);
        self.unread_token = claim.token;
        self.unread = self.store.claim_due_jobs(claim, now).await?;
        self.suspects.normal_claimed();
        self.position.record(self.unread.iter().map(|job| job.claimable_since).min(), now);
        Ok(())
    }

    /// Spawns an attempt for each loaded job.
    fn start(&mut self, loaded: Vec<LoadedJob>) {
        for loaded in loaded {
            let Some(slot) = self.slots.acquire() else { return };
            let (job, token, deliverer) = (loaded.job, self.unread_token, Arc::clone(&self.deliverer));
            let suspect = if job.suspect { self.suspects.occupy() } else { None };
            self.attempts.spawn((job, token), async move {
                deliverer.deliver(loaded, token).await;
                // The worker's slot is freed first, because freeing the suspect's slot wakes the worker.
                drop(slot);
                drop(suspect);
            });
        }
    }

    /// Releases unsent jobs, so that they can be claimed again before their leases expire.
    async fn release(&self, jobs: &[(ClaimedJob, LeaseToken)], now: Timestamp) -> StoreResult<u32> {
        let mut by_token: HashMap<LeaseToken, Vec<_>> = HashMap::new();
        for (job, token) in jobs {
            by_token.entry(*token).or_default().push(job.job_id);
        }
        let mut released = 0;
        for (token, jobs) in by_token {
            released += self.store.release_jobs(jobs, token, now).await?;
        }
        Ok(released)
    }
}

impl<S: WorkerStore + Clone> Step for Worker<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.attempts.reap();
        let mut asked = 0;
        if self.unread.is_empty() {
            asked = self.slots.free().min(JOBS_MAX);
            if asked == 0 {
                return Ok(Progress::IdleUntil(now.after(REFILL_WAIT)));
            }
            self.slots.set_awaited(false);
            if self.suspects.may_claim(now) && self.claim_suspect(now).await? {
                asked = 1;
            } else {
                self.claim(asked, now).await?;
            }
        }
        let claimed = u32::try_from(self.unread.len()).unwrap_or(u32::MAX);
        if claimed == 0 {
            return Ok(Progress::Idle);
        }
        // If the read fails, the jobs stay claimed and the next step reads them again.
        let loaded = self.deliverer.read(&self.unread, now).await?;
        self.unread.clear();
        let is_last = claimed < asked;
        if !is_last && self.slots.free() as usize <= loaded.len() {
            self.slots.set_awaited(true);
        }
        self.start(loaded);
        Ok(match (is_last, self.slots.free()) {
            (true, _) => Progress::Idle,
            (false, 0) => Progress::IdleUntil(now.after(REFILL_WAIT)),
            (false, _) => Progress::More,
        })
    }

    /// Waits for the attempts in flight. Jobs whose attempt does not finish in time are released, and may be
    /// sent twice.
    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        let mut left = self.attempts.drain(patience).await;
        left.extend(self.unread.drain(..).map(|job| (job, self.unread_token)));
        if left.is_empty() {
            return;
        }
        let (jobs, worker_id) = (left.len(), self.options.worker_id.as_str());
        match self.release(&left, clock.now()).await {
            Ok(released) => {
                tracing::warn!(jobs, released, worker_id, "shutting down, unfinished jobs released");
            }
            Err(error) => {
                let error: &StoreError = &error;
                tracing::error!(jobs, worker_id, %error, "release failed, jobs wait for their leases to expire");
            }
        }
    }
}
