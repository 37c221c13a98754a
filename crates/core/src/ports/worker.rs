//! Role job_worker: claims jobs, reads what to send, reports what came of it. Never touches a saga.

use super::{StoreResult, StoredEvent};
use crate::ids::{EventId, JobId, LeaseToken, SagaId, SubscriptionId, WorkerId};
use crate::outcome::AttemptOutcome;
use crate::subscription::{CallbackUrl, Secrets};
use crate::time::Timestamp;
use std::time::Duration;

/// One claim: who, how many, and for how long. `from` is the lowest `lease_until` of the last claim,
/// or nothing for a full pass.
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
    /// Which attempt of the delivery this is, counted from one.
    pub attempt: u32,
    /// Since when the job could be claimed.
    pub claimable_since: Timestamp,
    pub lease_until: Timestamp,
    /// Whether it was claimed by [`WorkerStore::claim_suspect_job`].
    pub suspect: bool,
}

/// Where a delivery goes, and what signs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub subscription_id: SubscriptionId,
    pub callback_url: CallbackUrl,
    pub verified: bool,
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
    /// The result stands. Reporting it again answers the same and changes nothing.
    Accepted,
    /// The lease had been given to somebody else, or the job had ended: nothing was changed.
    LeaseLost,
}

pub trait WorkerStore: Send + Sync + 'static {
    /// Leases the jobs that have waited longest, suspects excluded.
    fn claim_due_jobs(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<ClaimedJob>>> + Send;

    /// Leases the suspect (see [`crate::job::ExpiredLease`]) that has waited longest, if there is one.
    /// `jobs_max` of the claim has no effect.
    fn claim_suspect_job(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<ClaimedJob>>> + Send;

    /// Each distinct event once, in any order; what is not there is left out.
    fn load_events(&self, ids: Vec<EventId>) -> impl Future<Output = StoreResult<Vec<StoredEvent>>> + Send;

    /// Each distinct subscription once, in any order; what is not there is left out.
    fn load_targets(&self, ids: Vec<SubscriptionId>)
    -> impl Future<Output = StoreResult<Vec<Target>>> + Send;

    /// Reports results, one answer for each in order. Only the holder of the lease changes anything.
    fn report_jobs(
        &self,
        reports: Vec<JobReport>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Report>>> + Send;

    /// Gives back jobs that were claimed and not begun; counts no reset. Answers how many it gave back.
    fn release_jobs(
        &self,
        jobs: Vec<JobId>,
        token: LeaseToken,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<u32>> + Send;
}
