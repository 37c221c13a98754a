//! The state machine of a delivery. [`step`] is the only function that decides the next state of a saga. The
//! stores read sagas, call it and write its decision. Database triggers refuse every transition that
//! [`SagaStatus::may_become`] does not allow.
//!
//! ```text
//! Pending ──▶ InProgress ──▶ Completed
//!                │  ▲  └───▶ DeadLettered
//!                ▼  │             ▲
//!            PendingRetry ────────┘
//! ```

use crate::ids::{DeadLetterId, EventId, JobId, SagaId, SubscriptionId};
use crate::job::{self, JobOutcome, JobResult};
use crate::outcome::ErrorCode;
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SagaStatus {
    Pending,
    InProgress,
    PendingRetry,
    Completed,
    DeadLettered,
}

impl SagaStatus {
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::InProgress, Self::PendingRetry, Self::Completed, Self::DeadLettered];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::InProgress => "InProgress",
            Self::PendingRetry => "PendingRetry",
            Self::Completed => "Completed",
            Self::DeadLettered => "DeadLettered",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Returns whether this state is final.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::DeadLettered => true,
            Self::Pending | Self::InProgress | Self::PendingRetry => false,
        }
    }

    /// Returns whether a saga with this status may be updated to status `to`. If both are equal, only other
    /// columns change.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Pending => matches!(to, Self::Pending | Self::InProgress),
            Self::InProgress => {
                matches!(to, Self::InProgress | Self::Completed | Self::PendingRetry | Self::DeadLettered)
            }
            Self::PendingRetry => matches!(to, Self::PendingRetry | Self::InProgress | Self::DeadLettered),
            Self::Completed | Self::DeadLettered => false,
        }
    }
}

/// The part of a saga that [`step`] depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaState {
    pub status: SagaStatus,
    pub attempt_count: u32,
    pub next_attempt_at: Timestamp,
    pub final_error_code: Option<ErrorCode>,
    pub current_job_id: Option<JobId>,
}

/// The current state of one delivery of one event to one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saga {
    pub id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    pub state: SagaState,
    /// The dead letter from which this saga was requeued, or `None` if the router created the saga.
    pub requeued_from: Option<DeadLetterId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An input of [`step`], which may change the state of a saga.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SagaSignal<'a> {
    /// The orchestrator checks whether an attempt is due.
    Due,
    /// A job has finished.
    JobFinished(&'a JobResult),
}

/// The effect of a signal on a saga.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Create a job for the next attempt and change the saga to InProgress.
    StartAttempt {
        attempt_at: Timestamp,
        /// Whether the job is suspect; see [`job::is_suspect_after`].
        suspect: bool,
    },
    Complete {
        attempt_count: u32,
    },
    Retry {
        attempt_count: u32,
        next_attempt_at: Timestamp,
        error_code: ErrorCode,
    },
    DeadLetter {
        attempt_count: u32,
        error_code: Option<ErrorCode>,
    },
    Ignore(Ignored),
}

/// The reason why a signal is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// The saga is in a final state.
    Terminal,
    /// The saga is not due yet.
    NotDue,
    /// The current job of the saga is not finished.
    JobActive,
    /// The job is not the current job of the saga. Its result was already applied, or it belongs to another
    /// saga.
    NotItsJob,
}

/// Returns the effect of a signal on a saga. `policy` is the retry policy of the saga's subscription.
pub fn step(saga: &SagaState, signal: &SagaSignal<'_>, policy: &RetryPolicy, now: Timestamp) -> Decision {
    match (saga.status, signal) {
        (SagaStatus::Completed | SagaStatus::DeadLettered, SagaSignal::Due | SagaSignal::JobFinished(_)) => {
            Decision::Ignore(Ignored::Terminal)
        }
        (SagaStatus::Pending | SagaStatus::PendingRetry, SagaSignal::JobFinished(_)) => {
            Decision::Ignore(Ignored::NotItsJob)
        }
        (SagaStatus::InProgress, SagaSignal::Due) => Decision::Ignore(Ignored::JobActive),
        (SagaStatus::Pending | SagaStatus::PendingRetry, SagaSignal::Due) => start_if_due(saga, policy, now),
        (SagaStatus::InProgress, SagaSignal::JobFinished(result)) => finish(saga, result, policy, now),
    }
}

fn start_if_due(saga: &SagaState, policy: &RetryPolicy, now: Timestamp) -> Decision {
    // A Pending saga is always due. Its time is in the future only if the clock was set back.
    if saga.status == SagaStatus::PendingRetry && saga.next_attempt_at > now {
        Decision::Ignore(Ignored::NotDue)
    } else if saga.status == SagaStatus::PendingRetry && saga.attempt_count >= policy.attempts_max {
        // The limit was lowered while the saga was waiting.
        Decision::DeadLetter { attempt_count: saga.attempt_count, error_code: saga.final_error_code.clone() }
    } else {
        let suspect = job::is_suspect_after(saga.final_error_code.as_ref());
        Decision::StartAttempt { attempt_at: saga.next_attempt_at, suspect }
    }
}

fn finish(saga: &SagaState, result: &JobResult, policy: &RetryPolicy, now: Timestamp) -> Decision {
    if saga.current_job_id != Some(result.job_id) {
        return Decision::Ignore(Ignored::NotItsJob);
    }
    let attempt_count = saga.attempt_count.saturating_add(1);
    match &result.outcome {
        JobOutcome::Completed => Decision::Complete { attempt_count },
        JobOutcome::Failed { error_code, .. } if attempt_count >= policy.attempts_max => {
            Decision::DeadLetter { attempt_count, error_code: Some(error_code.clone()) }
        }
        JobOutcome::Failed { error_code, retry_after } => Decision::Retry {
            attempt_count,
            next_attempt_at: policy.next_attempt_at(attempt_count, *retry_after, saga.next_attempt_at, now),
            error_code: error_code.clone(),
        },
    }
}

impl SagaState {
    /// Returns the state of a new saga.
    pub const fn fresh(now: Timestamp) -> Self {
        Self {
            status: SagaStatus::Pending,
            attempt_count: 0,
            next_attempt_at: now,
            final_error_code: None,
            current_job_id: None,
        }
    }

    /// Returns the state after a decision. `job` is the job that was created if the decision starts an attempt.
    pub fn after(self, decision: &Decision, job: JobId) -> Self {
        match decision {
            Decision::StartAttempt { .. } => {
                Self { status: SagaStatus::InProgress, current_job_id: Some(job), ..self }
            }
            Decision::Complete { attempt_count } => Self {
                status: SagaStatus::Completed,
                attempt_count: *attempt_count,
                current_job_id: None,
                ..self
            },
            Decision::Retry { attempt_count, next_attempt_at, error_code } => Self {
                status: SagaStatus::PendingRetry,
                attempt_count: *attempt_count,
                next_attempt_at: *next_attempt_at,
                final_error_code: Some(error_code.clone()),
                current_job_id: None,
            },
            Decision::DeadLetter { attempt_count, error_code } => Self {
                status: SagaStatus::DeadLettered,
                attempt_count: *attempt_count,
                final_error_code: error_code.clone(),
                current_job_id: None,
                ..self
            },
            Decision::Ignore(_) => self,
        }
    }
}

#[cfg(test)]
mod tests;
