//! Port of the role job_worker: claims jobs, reads their events and subscriptions, and reports outcomes. Never
//! changes a saga.

use super::{StoreResult, StoredEvent};
use crate::envelope::Envelope;
use crate::ids::{EventId, JobId, LeaseToken, SagaId, SubscriptionId, WorkerId};
use crate::message_id::MessageIdKey;
use crate::outcome::AttemptOutcome;
use crate::request::{Auth, RequestHeaders};
use crate::signature::Signatures;
use crate::subscription::{CallbackUrl, Secrets};
use crate::time::Timestamp;
use std::time::Duration;

/// A request to claim jobs. `from` is the `lease_until` at which to start reading. `None` starts at the job
/// that has been waiting longest.
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
    /// The number of this attempt within the delivery, starting at 1.
    pub attempt: u32,
    /// The time at which the job became claimable.
    pub claimable_since: Timestamp,
    pub lease_until: Timestamp,
    /// Whether the job was claimed by [`WorkerStore::claim_suspect_job`].
    pub suspect: bool,
}

/// The destination of a delivery, how its requests are made, and its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub subscription_id: SubscriptionId,
    pub callback_url: CallbackUrl,
    pub verified: bool,
    pub timeout: Option<Duration>,
    pub signatures: Signatures,
    pub headers: RequestHeaders,
    pub auth: Option<Auth>,
    pub envelope: Envelope,
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
    /// The outcome was recorded. Reporting it again has no effect and also returns `Accepted`.
    Accepted,
    /// The lease was lost to another worker, or the job is finished. No change was made.
    LeaseLost,
}

pub trait WorkerStore: Send + Sync + 'static {
    /// Claims the jobs that have been waiting longest, except suspects.
    fn claim_due_jobs(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<ClaimedJob>>> + Send;

    /// Claims the suspect (see [`crate::job::ExpiredLease`]) that has been waiting longest. Returns `None` if
    /// there are no suspects. Ignores the `jobs_max` of the claim.
    fn claim_suspect_job(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<ClaimedJob>>> + Send;

    /// Returns each distinct event once, in any order. Events that do not exist are omitted.
    fn load_events(&self, ids: Vec<EventId>) -> impl Future<Output = StoreResult<Vec<StoredEvent>>> + Send;

    /// Returns the target of each distinct subscription once, in any order. Subscriptions that do not exist are
    /// omitted.
    fn load_targets(&self, ids: Vec<SubscriptionId>)
    -> impl Future<Output = StoreResult<Vec<Target>>> + Send;

    /// Returns the key from which message ids are derived. It never changes.
    fn load_message_id_key(&self) -> impl Future<Output = StoreResult<MessageIdKey>> + Send;

    /// Records the outcomes of jobs. Returns the results in the order of `reports`. A report without the
    /// current lease token has no effect.
    fn report_jobs(
        &self,
        reports: Vec<JobReport>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Report>>> + Send;

    /// Releases claimed jobs that were not sent, without counting a lease reset. Returns the number of released
    /// jobs.
    fn release_jobs(
        &self,
        jobs: Vec<JobId>,
        token: LeaseToken,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<u32>> + Send;
}
