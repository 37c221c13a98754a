//! Port of the role job_worker: claims jobs, reads what to send and reports outcomes. Never changes a saga.

use super::{StoreResult, StoredEvent};
use crate::ids::{EventId, JobId, LeaseToken, SagaId, SubscriptionId, WorkerId};
use crate::outcome::AttemptOutcome;
use crate::subscription::{CallbackUrl, Secrets};
use crate::time::Timestamp;
use std::time::Duration;

/// One claim: the worker, the maximum number of jobs, and the length of the lease. `from` is the
/// `lease_until` from which to read; `None` means from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub worker_id: WorkerId,
    pub token: LeaseToken,
    pub lease: Duration,
    pub from: Option<Timestamp>,
    pub jobs_max: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedJob {
    pub job_id: JobId,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    /// The number of this attempt of the delivery, starting at one.
    pub attempt: u32,
    /// Since when the job could be claimed.
    pub claimable_since: Timestamp,
    pub lease_until: Timestamp,
    /// Whether it was claimed by [`WorkerStore::claim_suspect_job`].
    pub suspect: bool,
}

/// The destination of a delivery, and the secrets that sign it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub subscription_id: SubscriptionId,
    pub callback_url: CallbackUrl,
    pub verified: bool,
    pub timeout: Option<Duration>,
    pub secrets: Secrets,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    pub job_id: JobId,
    pub token: LeaseToken,
    pub outcome: AttemptOutcome,
    pub duration: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The result was recorded. Reporting it again returns the same and has no effect.
    Accepted,
    /// The lease was lost to another worker, or the job has ended; no change was made.
    LeaseLost,
}

pub trait WorkerStore: Send + Sync + 'static {
    /// Leases the jobs that have waited longest, except suspects.
    fn claim_due_jobs(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<ClaimedJob>>> + Send;

    /// Leases the suspect (see [`crate::job::ExpiredLease`]) that has waited longest, if there is one.
    /// `jobs_max` of the claim is ignored.
    fn claim_suspect_job(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<ClaimedJob>>> + Send;

    /// Returns each distinct event once, in any order. Missing ones are left out.
    fn load_events(&self, ids: Vec<EventId>) -> impl Future<Output = StoreResult<Vec<StoredEvent>>> + Send;

    /// Returns each distinct subscription once, in any order. Missing ones are left out.
    fn load_targets(&self, ids: Vec<SubscriptionId>)
    -> impl Future<Output = StoreResult<Vec<Target>>> + Send;

    /// Records results and returns one report for each, in order. A result without the current token of the
    /// lease changes nothing.
    fn report_jobs(
        &self,
        reports: Vec<JobReport>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Report>>> + Send;

    /// Releases jobs that were claimed and not sent, without counting a reset. Returns how many were
    /// released.
    fn release_jobs(
        &self,
        jobs: Vec<JobId>,
        token: LeaseToken,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<u32>> + Send;
}
