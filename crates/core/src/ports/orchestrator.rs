//! Port of the role saga_orchestrator: creates jobs and applies the decisions of [`crate::saga::step`] to
//! sagas.

use super::StoreResult;
use crate::ids::{EventId, JobId, SagaId, SubscriptionId};
use crate::outcome::ErrorCode;
use crate::retry::RetryPolicy;
use crate::saga::Decision;
use crate::time::Timestamp;
use std::time::Duration;

/// A subscription with due sagas, and the smallest `next_attempt_at` among the sagas that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueSince {
    pub subscription_id: SubscriptionId,
    pub since: Timestamp,
}

/// A page of active, verified subscriptions that have a due saga.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueSubscriptions {
    pub due: Vec<DueSince>,
    /// The value of `after` for the next page, or `None` if this is the last page.
    pub next: Option<SubscriptionId>,
}

/// Subscriptions whose sagas became due recently, including paused and unverified subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentlyDue {
    pub due: Vec<DueSince>,
    /// The time up to which all due sagas were read, or `None` if all of them were read.
    pub until: Option<Timestamp>,
}

/// The maximum number of jobs to create for a subscription, and the `next_attempt_at` at which to start reading
/// its due sagas. `None` starts at the oldest saga.
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
    /// The sagas that were dead-lettered because their attempt limit was lowered while they were waiting.
    pub dead_lettered: Vec<DeadLetteredSaga>,
    /// The smallest `next_attempt_at` fetched for each subscription.
    pub fetched: Vec<DueSince>,
}

/// A saga that was dead-lettered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetteredSaga {
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
}

/// The maximum number of finished jobs to fetch, and the id at which to start reading. `None` starts at the
/// smallest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultTake {
    pub from: Option<JobId>,
    pub results_max: u32,
}

/// A page of waiting rows, ordered by the time at which they become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPage {
    pub from: Timestamp,
    pub rows_max: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartedWaits {
    pub restarted: u32,
    /// The value of `from` for the next page, or `None` if this is the last page.
    pub next: Option<Timestamp>,
}

impl RestartedWaits {
    /// Creates the result for a page of `rows` rows whose last wait ends at `last`. Rows with the same time may
    /// be on both sides of a page boundary, so the next page starts at `last`. If this page also started at
    /// `last` and restarted no wait, the next page starts one microsecond later.
    pub fn of_page(page: WaitPage, rows: usize, restarted: usize, last: Option<Timestamp>) -> Self {
        let is_full = rows >= page.rows_max as usize;
        let next = last.filter(|last| is_full && *last < Timestamp::MAX).map(|last| {
            let is_stuck = last <= page.from && restarted == 0;
            if is_stuck { last.after(Duration::from_micros(1)) } else { last }
        });
        Self { restarted: u32::try_from(restarted).unwrap_or(u32::MAX), next }
    }
}

/// A finished job and its effect on the saga. If the decision is [`Decision::Ignore`], the saga is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedResult {
    pub job_id: JobId,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    /// The error code of the attempt, or `None` if it succeeded.
    pub error_code: Option<ErrorCode>,
    pub decision: Decision,
    /// The creation time of the saga, from which the total duration of the delivery is computed.
    pub saga_created_at: Timestamp,
}

impl AppliedResult {
    /// Returns whether the result was ignored and the saga is unchanged.
    pub const fn is_ignored(&self) -> bool {
        matches!(self.decision, Decision::Ignore(_))
    }
}

pub trait OrchestratorStore: Send + Sync + 'static {
    /// Returns the active, verified subscriptions that have a due saga. Checks at most `probes_max`
    /// subscriptions with unfinished sagas, starting after `after`. A Pending saga is always due.
    fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<DueSubscriptions>> + Send;

    /// Returns the subscriptions whose sagas have become due since `since`, oldest first. Reads at most
    /// `sagas_max` sagas that are waiting for their first attempt, which are always due, and at most
    /// `sagas_max` sagas that are waiting for a retry.
    fn find_recently_due(
        &self,
        since: Timestamp,
        sagas_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RecentlyDue>> + Send;

    /// Creates jobs for due sagas, as decided by [`crate::admission::decide`].
    fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Admitted>> + Send;

    /// Reads the sagas that are waiting for a retry at `page.from` or later, and restarts the waits that were
    /// stored before the clock was set back, as decided by [`RetryPolicy::restarted_wait`].
    fn restart_waits(
        &self,
        page: WaitPage,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RestartedWaits>> + Send;

    /// Applies the results of finished jobs to their sagas, each exactly once. Returns all results, including
    /// those ignored by [`crate::results::decide`]. A job that is not finished or has no saga is only removed
    /// from `finished_jobs`.
    fn apply_job_results(
        &self,
        take: ResultTake,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<AppliedResult>>> + Send;

    /// Returns the number of deliveries in flight for each subscription, in the same order, across all
    /// orchestrators. Each number is counted up to `count_max`.
    fn count_in_flight(
        &self,
        subscriptions: Vec<SubscriptionId>,
        count_max: u32,
    ) -> impl Future<Output = StoreResult<Vec<u32>>> + Send;
}
