//! Claims jobs (made by the orchestrator), sends them, and reports what came of them. Claims only what
//! it can send at once; never touches a saga.
//!
//! A step claims, reads each distinct event and subscription once, and starts the sending; it does not
//! wait for receivers. Each attempt ends with a report through the [`Reports`] batcher, and frees its
//! slot when the report has been answered.

mod deliver;
mod reports;
mod suspects;

use crate::batcher::Batcher;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::read_position::ReadPosition;
use crate::seal::SecretSealer;
use crate::sender::Sender;
use crate::step::{Progress, Step};
use crate::wake::Bell;
use deliver::{Courier, Letter};
use posthaste_core::ports::{Claim, ClaimedJob, JobReport, Report, StoreError, StoreResult, WorkerStore};
use posthaste_core::{LeaseToken, Timestamp, WorkerId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use suspects::Suspects;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};

pub use reports::{Reports, SERVICE as REPORTS};

/// The most jobs of one claim.
const JOBS_MAX: u32 = 500;
/// How long free slots stand empty at most while jobs may wait for them.
const REFILL_WAIT: Duration = Duration::from_millis(10);

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub worker_id: WorkerId,
    pub lease: Duration,
    /// Over one whole exchange; well under the lease.
    pub deadline: Duration,
    /// How many exchanges may be under way.
    pub slots: u32,
}

/// What a worker is made of, beside its store.
#[derive(Debug, Clone)]
pub struct WorkerKit {
    pub sender: Sender,
    pub sealer: Arc<SecretSealer>,
    pub reports: Batcher<JobReport, Report>,
    pub clock: Clock,
    pub metrics: Metrics,
    /// Rings when slots came free that may be wanted.
    pub bell: Bell,
}

/// Draws a fresh token: 128 random bits.
pub type DrawToken = Box<dyn Fn() -> LeaseToken + Send + Sync>;

pub struct Worker<S> {
    store: S,
    options: WorkerOptions,
    draw_token: DrawToken,
    courier: Arc<Courier<S>>,
    bell: Bell,
    slots: Arc<Semaphore>,
    refill: Arc<Refill>,
    attempts: JoinSet<()>,
    /// The attempts under way, by the task that makes them.
    leased: HashMap<Id, (ClaimedJob, LeaseToken)>,
    /// Jobs that were claimed and could not be read yet.
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

/// When to claim again after all slots were given out and more jobs wait: once a quarter of the slots
/// came free, so that claims stay large. Slow receivers may keep more than that; then [`REFILL_WAIT`]
/// bounds how long the free ones stand empty.
#[derive(Debug)]
struct Refill {
    quarter: u32,
    /// Attempts that must end before the bell rings; zero when nobody waits for slots.
    missing: AtomicU32,
}

impl Refill {
    fn new(slots: u32) -> Self {
        Self { quarter: (slots / 4).max(1), missing: AtomicU32::new(0) }
    }

    fn expect(&self) {
        self.missing.store(self.quarter, Ordering::Relaxed);
    }

    fn nobody_waits(&self) {
        self.missing.store(0, Ordering::Relaxed);
    }

    /// Whether this end is the one that was waited for.
    fn ended(&self) -> bool {
        let less = |missing: u32| missing.checked_sub(1);
        self.missing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(1)
    }
}

impl<S: WorkerStore + Clone> Worker<S> {
    pub fn new(store: S, options: WorkerOptions, kit: WorkerKit, draw_token: DrawToken) -> Self {
        let slots = Arc::new(Semaphore::new(options.slots as usize));
        let refill = Arc::new(Refill::new(options.slots));
        let bell = kit.bell.clone();
        let position = ReadPosition::new(kit.clock.clone());
        let courier = Arc::new(Courier::new(store.clone(), kit, &options));
        Self {
            store,
            options,
            draw_token,
            courier,
            bell,
            slots,
            refill,
            attempts: JoinSet::new(),
            leased: HashMap::new(),
            unread: Vec::new(),
            unread_token: LeaseToken::from_random(0),
            position,
            suspects: Suspects::new(),
        }
    }

    /// Waits until every attempt under way has ended and was reported.
    pub async fn settle(&mut self) {
        while let Some(ended) = self.attempts.join_next_with_id().await {
            self.reap(ended);
        }
    }

    fn reap_ended(&mut self) {
        while let Some(ended) = self.attempts.try_join_next_with_id() {
            self.reap(ended);
        }
    }

    fn reap(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let job = self.leased.remove(&id);
        if let (true, Some((job, _))) = (panicked, job) {
            let (saga_id, job_id) = (job.saga_id, job.job_id);
            tracing::error!(%saga_id, %job_id, "an attempt panicked; its lease will run out");
        }
    }

    /// Returns a claim under a new token.
    fn new_claim(&self, from: Option<Timestamp>, jobs_max: u32) -> Claim {
        Claim {
            worker_id: self.options.worker_id.clone(),
            token: (self.draw_token)(),
            lease: self.options.lease,
            from,
            jobs_max,
        }
    }

    /// Claims a suspect if one waits. Returns whether it did.
    async fn claim_suspect(&mut self, now: Timestamp) -> StoreResult<bool> {
        let claim = self.new_claim(None, 1);
        self.unread_token = claim.token;
        self.unread.extend(self.store.claim_suspect_job(claim, now).await?);
        let found = !self.unread.is_empty();
        self.suspects.polled(found, now);
        Ok(found)
    }

    /// Claims as many jobs as there are free slots.
    async fn claim(&mut self, jobs_max: u32, now: Timestamp) -> StoreResult<()> {
        let claim = self.new_claim(self.position.from(now), jobs_max);
        self.unread_token = claim.token;
        self.unread = self.store.claim_due_jobs(claim, now).await?;
        self.suspects.normal_claimed();
        self.position.record(self.unread.iter().map(|job| job.claimable_since).min(), now);
        Ok(())
    }

    /// Starts an attempt for every job that was claimed and read.
    fn start(&mut self, letters: Vec<Letter>) {
        for letter in letters {
            let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else { return };
            let (job, token) = (letter.job, self.unread_token);
            let (courier, refill) = (Arc::clone(&self.courier), Arc::clone(&self.refill));
            let bell = self.bell.clone();
            let suspect = if job.suspect { self.suspects.occupy() } else { None };
            let attempt = async move {
                courier.carry(letter, token).await;
                drop(slot);
                // The next suspect may be claimed as soon as this one has ended.
                let was_suspect = suspect.is_some();
                drop(suspect);
                if refill.ended() || was_suspect {
                    bell.ring();
                }
            };
            // On the heap: a task moves what it runs several times, and this is a few thousand bytes.
            let task = self.attempts.spawn(Box::pin(attempt));
            self.leased.insert(task.id(), (job, token));
        }
    }

    /// Gives back what has not been sent, so that nobody waits for the lease to run out.
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
        self.reap_ended();
        let mut asked = 0;
        if self.unread.is_empty() {
            let free = u32::try_from(self.slots.available_permits()).unwrap_or(u32::MAX);
            asked = free.min(JOBS_MAX);
            if asked == 0 {
                return Ok(Progress::IdleUntil(now.after(REFILL_WAIT)));
            }
            self.refill.nobody_waits();
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
        // If reading fails, the jobs stay claimed and the next step reads them.
        let letters = self.courier.read(&self.unread, now).await?;
        self.unread.clear();
        let is_last = claimed < asked;
        if !is_last && self.slots.available_permits() <= letters.len() {
            self.refill.expect();
        }
        self.start(letters);
        Ok(match (is_last, self.slots.available_permits()) {
            (true, _) => Progress::Idle,
            (false, 0) => Progress::IdleUntil(now.after(REFILL_WAIT)),
            (false, _) => Progress::More,
        })
    }

    /// Lets the attempts under way end; what does not in time is given back, and may be sent twice.
    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        if tokio::time::timeout(patience, self.settle()).await.is_err() {
            self.reap_ended();
            self.attempts.abort_all();
        }
        let mut left: Vec<_> = self.leased.drain().map(|(_, leased)| leased).collect();
        left.extend(self.unread.drain(..).map(|job| (job, self.unread_token)));
        if left.is_empty() {
            return;
        }
        let (jobs, worker_id) = (left.len(), self.options.worker_id.as_str());
        match self.release(&left, clock.now()).await {
            Ok(released) => tracing::warn!(jobs, released, worker_id, "unfinished jobs were given back"),
            Err(error) => {
                let error: &StoreError = &error;
                tracing::error!(jobs, worker_id, %error, "unfinished jobs wait for their leases to run out");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_rings_once_when_a_quarter_of_the_slots_came_free() {
        let refill = Refill::new(12);
        assert!(!refill.ended(), "nobody waits");
        refill.expect();
        let rings: Vec<_> = (0..5).map(|_| refill.ended()).collect();
        assert_eq!(rings, [false, false, true, false, false]);
        refill.expect();
        refill.nobody_waits();
        assert!((0..5).all(|_| !refill.ended()));
        let single = Refill::new(1);
        single.expect();
        assert!(single.ended());
    }
}
