//! One attempt of a delivery: its states, and what happens when its lease expires. Jobs are created by the
//! orchestrator, executed by workers and reset by the cleaner; [`crate::saga`] decides what a result means
//! for the delivery.

use crate::broker::UNKNOWN;
use crate::ids::JobId;
use crate::outcome::{ErrorCode, Failure};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobStatus {
    Pending,
    Leased,
    Completed,
    Failed,
}

impl JobStatus {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Leased, Self::Completed, Self::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Leased => "Leased",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Returns whether this state is final.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Pending | Self::Leased => false,
        }
    }

    /// Returns whether an update from this status to `to` is legal. The same status means that only other
    /// columns change.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Pending => matches!(to, Self::Pending | Self::Leased),
            Self::Leased => true,
            Self::Completed | Self::Failed => false,
        }
    }
}

/// How a finished job ended, according to its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    Completed,
    Failed { error_code: ErrorCode, retry_after: Option<Duration> },
}

impl JobOutcome {
    /// Returns the outcome in a job's row, or `None` if the job is not finished. A failed job without an
    /// error code, which only a write outside Posthaste can cause, still counts as failed.
    pub fn of_row(
        status: JobStatus,
        error_code: Option<ErrorCode>,
        retry_after_s: Option<u32>,
    ) -> Option<Self> {
        match status {
            JobStatus::Pending | JobStatus::Leased => None,
            JobStatus::Completed => Some(Self::Completed),
            JobStatus::Failed => Some(Self::Failed {
                error_code: error_code.unwrap_or(UNKNOWN),
                retry_after: retry_after_s.map(|seconds| Duration::from_secs(seconds.into())),
            }),
        }
    }
}

/// A finished job, as the orchestrator reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    pub job_id: JobId,
    pub outcome: JobOutcome,
}

/// What happens to a job whose lease has expired: it is reset until the limit of resets is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiredLease {
    /// A `suspect` may have killed its worker. From then on it runs without other suspects in its process, so
    /// a job that does kill its worker uses up only its own resets.
    GiveBack {
        lease_resets: u32,
        suspect: bool,
    },
    Fail {
        lease_resets: u32,
    },
}

/// The number of resets from which a job is suspect. A single crash makes no job suspect, so after an
/// ordinary restart all jobs run at full speed. It is lower if the limit of resets is lower, because the next
/// reset would fail the job.
const SUSPECT_RESETS: u32 = 2;

/// Returns whether a job whose lease has expired is reset or failed. `lease_resets` is the number of earlier
/// resets.
pub const fn expire(lease_resets: u32, resets_max: u32) -> ExpiredLease {
    let lease_resets = lease_resets.saturating_add(1);
    if lease_resets > resets_max {
        ExpiredLease::Fail { lease_resets }
    } else {
        let suspect_from = if resets_max < SUSPECT_RESETS { 1 } else { SUSPECT_RESETS };
        ExpiredLease::GiveBack { lease_resets, suspect: lease_resets >= suspect_from }
    }
}

/// Returns whether the next job of a saga with this last error is suspect: the previous job lost too many
/// workers.
pub fn is_suspect_after(last_error: Option<&ErrorCode>) -> bool {
    last_error == Some(&Failure::LeaseExpired.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_legal_transitions_are_allowed() {
        use JobStatus::{Completed, Failed, Leased, Pending};
        let legal = [
            (Pending, Pending),
            (Pending, Leased),
            (Leased, Leased),
            (Leased, Completed),
            (Leased, Failed),
            (Leased, Pending),
        ];
        for from in JobStatus::ALL {
            for to in JobStatus::ALL {
                assert_eq!(from.may_become(to), legal.contains(&(from, to)), "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn expired_lease_is_reset_until_the_limit() {
        let back = |lease_resets, suspect| ExpiredLease::GiveBack { lease_resets, suspect };
        assert_eq!(expire(0, 3), back(1, false));
        assert_eq!(expire(1, 3), back(2, true));
        assert_eq!(expire(2, 3), back(3, true));
        assert_eq!(expire(3, 3), ExpiredLease::Fail { lease_resets: 4 });
        assert_eq!(expire(0, 2), back(1, false));
        assert_eq!(expire(1, 2), back(2, true));
        assert_eq!(expire(0, 1), back(1, true));
        assert_eq!(expire(0, 0), ExpiredLease::Fail { lease_resets: 1 });
        assert_eq!(expire(u32::MAX, u32::MAX), back(u32::MAX, true));
    }

    #[test]
    fn only_the_job_after_an_expired_lease_starts_as_a_suspect() {
        assert!(!is_suspect_after(None));
        for failure in Failure::ALL {
            assert_eq!(is_suspect_after(Some(&failure.code())), failure == Failure::LeaseExpired);
        }
        assert!(is_suspect_after(Some(&ErrorCode::from_store("LEASE_EXPIRED".into()))));
    }
}
