//! Computes the effect of finished jobs on their sagas. The stores read the jobs with their sagas, write the
//! new states and return every result. A result without an effect has the decision [`saga::Decision::Ignore`].

use crate::ids::{EventId, SagaId, SubscriptionId};
use crate::job::{JobOutcome, JobResult};
use crate::ports::AppliedResult;
use crate::retry::RetryPolicy;
use crate::saga::{self, SagaSignal, SagaState};
use crate::time::Timestamp;

/// A finished job with its saga and the attempt limit of its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob {
    pub result: JobResult,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    pub state: SagaState,
    pub saga_created_at: Timestamp,
    pub max_retry_limit: Option<u32>,
}

/// Returns the result of each job and the new state of its saga, in the same order. Only the current job of a
/// saga can change its state.
pub fn decide(
    finished: impl IntoIterator<Item = FinishedJob>,
    policy: RetryPolicy,
    now: Timestamp,
) -> Vec<(AppliedResult, SagaState)> {
    let decide_one = |job: FinishedJob| {
        let policy = policy.with_limit(job.max_retry_limit);
        let decision = saga::step(&job.state, &SagaSignal::JobFinished(&job.result), &policy, now);
        let state = job.state.after(&decision, job.result.job_id);
        let result = AppliedResult {
            job_id: job.result.job_id,
            saga_id: job.saga_id,
            event_id: job.event_id,
            subscription_id: job.subscription_id,
            error_code: match job.result.outcome {
                JobOutcome::Completed => None,
                JobOutcome::Failed { error_code, .. } => Some(error_code),
            },
            decision,
            saga_created_at: job.saga_created_at,
        };
        (result, state)
    };
    finished.into_iter().map(decide_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;
    use crate::outcome::ErrorCode;
    use crate::saga::Decision::{Complete, DeadLetter, Ignore, Retry};
    use crate::saga::Ignored::{NotItsJob, Terminal};
    use crate::saga::{Decision, SagaStatus};
    use std::time::Duration;

    const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    /// Returns a saga in `status` after one attempt. If it is InProgress, its current job is 7.
    fn saga(status: SagaStatus) -> SagaState {
        let current_job_id = (status == SagaStatus::InProgress).then(|| JobId::from_store(7));
        SagaState { status, attempt_count: 1, current_job_id, ..SagaState::fresh(T0) }
    }

    #[test]
    fn every_result_is_returned_and_only_the_current_job_changes_its_saga() {
        let code = ErrorCode::parse("HTTP_500").expect("a code");
        let failed = || JobOutcome::Failed { error_code: code.clone(), retry_after: None };
        let (attempt_count, next_attempt_at) = (2, T0.after(Duration::from_secs(60)));
        let retry = Retry { attempt_count, next_attempt_at, error_code: code.clone() };
        let dead_letter = DeadLetter { attempt_count, error_code: Some(code.clone()) };
        let rows: [(SagaStatus, i64, JobOutcome, Option<u32>, Decision); 8] = [
            (SagaStatus::InProgress, 7, JobOutcome::Completed, None, Complete { attempt_count }),
            (SagaStatus::InProgress, 7, failed(), None, retry),
            (SagaStatus::InProgress, 7, failed(), Some(2), dead_letter),
            (SagaStatus::InProgress, 6, JobOutcome::Completed, None, Ignore(NotItsJob)),
            (SagaStatus::Pending, 7, JobOutcome::Completed, None, Ignore(NotItsJob)),
            (SagaStatus::PendingRetry, 7, failed(), None, Ignore(NotItsJob)),
            (SagaStatus::Completed, 7, failed(), None, Ignore(Terminal)),
            (SagaStatus::DeadLettered, 7, JobOutcome::Completed, None, Ignore(Terminal)),
        ];
        let jobs = rows.iter().map(|(status, job, outcome, max_retry_limit, _)| FinishedJob {
            result: JobResult { job_id: JobId::from_store(*job), outcome: outcome.clone() },
            saga_id: SagaId::from_store(1),
            event_id: EventId::from_store(2),
            subscription_id: SubscriptionId::from_store(3),
            state: saga(*status),
            saga_created_at: T0,
            max_retry_limit: *max_retry_limit,
        });
        let decided = decide(jobs, RetryPolicy::WEBHOOK, T0);
        assert_eq!(decided.len(), rows.len());
        for ((result, state), (status, job, outcome, _, decision)) in decided.iter().zip(&rows) {
            let row = format!("{status:?}, job {job}, {outcome:?}");
            assert_eq!((&result.decision, result.job_id.get()), (decision, *job), "{row}");
            assert_eq!(result.is_ignored(), matches!(decision, Ignore(_)), "{row}");
            assert_eq!(result.error_code.is_some(), *outcome != JobOutcome::Completed, "{row}");
            assert_eq!(*state, saga(*status).after(decision, result.job_id), "{row}");
        }
    }
}
