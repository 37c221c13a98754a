//! Role saga_orchestrator: moves sagas, makes jobs. What it decides comes from [`crate::saga::step`].

use super::StoreResult;
use crate::ids::{EventId, JobId, SagaId, SubscriptionId};
use crate::outcome::ErrorCode;
use crate::retry::RetryPolicy;
use crate::saga::Decision;
use crate::time::Timestamp;

/// Subscriptions that may be sent to and have a due saga.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueSubscriptions {
    /// Each with the time since when the oldest of its due sagas waits.
    pub due: Vec<(SubscriptionId, Timestamp)>,
    /// Where to look on; nothing when the last one was reached.
    pub next: Option<SubscriptionId>,
}

/// Subscriptions that had a saga come due lately, whether they may be sent to or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatelyDue {
    pub subscriptions: Vec<SubscriptionId>,
    /// Everything that came due up to here was seen.
    pub until: Timestamp,
}

/// How many more jobs a subscription may get now, and from where its due sagas are looked for: what came
/// due before `from` was taken already; nothing for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub subscription_id: SubscriptionId,
    pub jobs_max: u32,
    pub from: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmittedJob {
    pub job_id: JobId,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    pub jobs: Vec<AdmittedJob>,
    /// Sagas over a limit that was lowered while they waited.
    pub dead_lettered: Vec<GivenUp>,
    /// When the last of each subscription's sagas that were taken had come due.
    pub reached: Vec<(SubscriptionId, Timestamp)>,
}

/// A saga that gets no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp {
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
}

/// How many finished jobs to take, and from where: `from` is the lowest id of the last take, or
/// nothing for a full pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultTake {
    pub from: Option<JobId>,
    pub results_max: u32,
}

/// One finished job and what it did to its saga.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedResult {
    pub job_id: JobId,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    /// Why the attempt failed; nothing when it succeeded.
    pub error_code: Option<ErrorCode>,
    pub decision: Decision,
    /// When the saga was made: how long the delivery took in all.
    pub saga_created_at: Timestamp,
}

pub trait OrchestratorStore: Send + Sync + 'static {
    /// Walks the subscriptions that have unfinished sagas, one probe each, and names those that are
    /// active, verified and due, and since when. Looks at `probes_max` of them, from behind `after` on.
    fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<DueSubscriptions>> + Send;

    /// Names the subscriptions whose sagas came due between `since` and `now`, from the oldest on; looks
    /// at `sagas_max` that wait for their first attempt and at as many that wait for another.
    fn find_lately_due(
        &self,
        since: Timestamp,
        sagas_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<LatelyDue>> + Send;

    /// Starts the attempts that are due, at most the quota of each subscription, oldest first.
    fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Admitted>> + Send;

    /// Applies results of finished jobs to their sagas, each once.
    fn apply_job_results(
        &self,
        take: ResultTake,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<AppliedResult>>> + Send;

    /// How many deliveries of each subscription are under way, whoever admitted them: one number for
    /// each, in order, and none above `count_max`.
    fn count_in_flight(
        &self,
        subscriptions: Vec<SubscriptionId>,
        count_max: u32,
    ) -> impl Future<Output = StoreResult<Vec<u32>>> + Send;

    /// The earliest time after `now` at which a waiting saga comes due.
    fn next_due_at(&self, now: Timestamp) -> impl Future<Output = StoreResult<Option<Timestamp>>> + Send;
}
