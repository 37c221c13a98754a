//! Port of the role saga_orchestrator: moves sagas and creates jobs, as [`crate::saga::step`] decides.

use super::StoreResult;
use crate::ids::{EventId, JobId, SagaId, SubscriptionId};
use crate::outcome::ErrorCode;
use crate::retry::RetryPolicy;
use crate::saga::Decision;
use crate::time::Timestamp;
use std::time::Duration;

/// A subscription with due sagas, and the smallest `next_attempt_at` of those that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueSince {
    pub subscription_id: SubscriptionId,
    pub since: Timestamp,
}

/// Subscriptions that are active, verified and have a due saga.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueSubscriptions {
    pub due: Vec<DueSince>,
    /// The start of the next page; `None` after the last one.
    pub next: Option<SubscriptionId>,
}

/// Subscriptions whose sagas came due recently, including paused and unverified ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentlyDue {
    pub due: Vec<DueSince>,
    /// `None` if everything was read; otherwise everything that came due before this time was.
    pub until: Option<Timestamp>,
}

/// How many more jobs a subscription may get now, and the `next_attempt_at` from which its due sagas are
/// read; `None` means from the beginning.
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
    /// Sagas whose attempt limit was lowered while they waited.
    pub dead_lettered: Vec<DeadLetteredSaga>,
    /// The smallest `next_attempt_at` that was fetched for each subscription.
    pub fetched: Vec<DueSince>,
}

/// A saga that gets no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetteredSaga {
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
}

/// How many finished jobs to fetch, and the id from which to read; `None` means from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultTake {
    pub from: Option<JobId>,
    pub results_max: u32,
}

/// A page of waiting rows, ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPage {
    pub from: Timestamp,
    pub rows_max: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartedWaits {
    pub restarted: u32,
    /// The start of the next page; `None` after the last one.
    pub next: Option<Timestamp>,
}

impl RestartedWaits {
    /// Returns the result of a page of `rows` rows whose last wait ends at `last`. Rows with equal times may
    /// be on both sides of a page boundary, so the next page starts at that time, unless this page began
    /// there and restarted none of its rows.
    pub fn of_page(page: WaitPage, rows: usize, restarted: usize, last: Option<Timestamp>) -> Self {
        let is_full = rows >= page.rows_max as usize;
        let next = last.filter(|last| is_full && *last < Timestamp::MAX).map(|last| {
            let is_stuck = last <= page.from && restarted == 0;
            if is_stuck { last.after(Duration::from_micros(1)) } else { last }
        });
        Self { restarted: u32::try_from(restarted).unwrap_or(u32::MAX), next }
    }
}

/// One finished job and its effect on the saga. There is none if the decision is [`Decision::Ignore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedResult {
    pub job_id: JobId,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    /// Why the attempt failed; `None` if it succeeded.
    pub error_code: Option<ErrorCode>,
    pub decision: Decision,
    /// When the saga was created, to compute the total duration of the delivery.
    pub saga_created_at: Timestamp,
}

impl AppliedResult {
    /// Returns whether the saga was unchanged because this was not its current job.
    pub const fn is_ignored(&self) -> bool {
        matches!(self.decision, Decision::Ignore(_))
    }
}

pub trait OrchestratorStore: Send + Sync + 'static {
    /// Probes the subscriptions that have unfinished sagas, and returns those that are active, verified and
    /// due. Probes at most `probes_max`, those after `after`. A Pending saga is always due.
    fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<DueSubscriptions>> + Send;

    /// Returns the subscriptions whose sagas have come due since `since`, oldest first. Reads at most
    /// `sagas_max` sagas that wait for their first attempt (which are always due) and as many that wait for a
    /// retry.
    fn find_recently_due(
        &self,
        since: Timestamp,
        sagas_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RecentlyDue>> + Send;

    /// Creates the jobs of due sagas, as [`crate::admission::decide`] decides.
    fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Admitted>> + Send;

    /// Reads the waiting retries whose `next_attempt_at` is `page.from` or later, and restarts the waits that
    /// were stored before a clock step back, as [`RetryPolicy::restarted_wait`] decides.
    fn restart_waits(
        &self,
        page: WaitPage,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RestartedWaits>> + Send;

    /// Applies the results of finished jobs to their sagas, each once. Returns all of them, including those
    /// that [`crate::results::decide`] ignores. A job that is not finished or has no saga is only removed
    /// from the inbox.
    fn apply_job_results(
        &self,
        take: ResultTake,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<AppliedResult>>> + Send;

    /// Returns how many deliveries of each subscription are in flight, from all orchestrators: one number for
    /// each, in order, at most `count_max`.
    fn count_in_flight(
        &self,
        subscriptions: Vec<SubscriptionId>,
        count_max: u32,
    ) -> impl Future<Output = StoreResult<Vec<u32>>> + Send;
}
