//! One attempt of a delivery: its states, and what a worker may say of it. Jobs are made by the
//! orchestrator, worked by workers, given back by the cleaner; what a result means for the delivery
//! is decided in [`crate::saga`].

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

    /// Nothing ever changes again.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Pending | Self::Leased => false,
        }
    }

    /// Whether an update may take a job from here to there; staying is a change of other columns.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Pending => matches!(to, Self::Pending | Self::Leased),
            Self::Leased => true,
            Self::Completed | Self::Failed => false,
        }
    }
}

/// How a finished job ended, as its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    Completed,
    Failed { error_code: ErrorCode, retry_after: Option<Duration> },
}

impl JobOutcome {
    /// What a job's row says; nothing while the job has not ended. One that failed without a code, which
    /// only hands other than ours can bring about, still counts.
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

/// What becomes of a job whose lease ran out: given back until it has killed too many workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiredLease {
    /// A `suspect` may have killed its worker. From then on it runs without other suspects in its process, so a job
    /// that does kill its worker uses up its own resets only.
    GiveBack {
        lease_resets: u32,
        suspect: bool,
    },
    Fail {
        lease_resets: u32,
    },
}

/// Number of resets from which a job is suspect. One crash makes no job suspect, so after an ordinary restart all
/// jobs run at full speed; lower limits of resets lower it, because the next reset would fail the job.
const SUSPECT_RESETS: u32 = 2;

/// Decides over a job whose lease ran out `lease_resets` times before.
pub const fn expire(lease_resets: u32, resets_max: u32) -> ExpiredLease {
    let lease_resets = lease_resets.saturating_add(1);
    if lease_resets > resets_max {
        ExpiredLease::Fail { lease_resets }
    } else {
        let suspect_from = if resets_max < SUSPECT_RESETS { 1 } else { SUSPECT_RESETS };
        ExpiredLease::GiveBack { lease_resets, suspect: lease_resets >= suspect_from }
    }
}

/// Returns whether the first job after this error of its saga is suspect: the job before it lost too many workers.
pub fn is_suspect_after(last_error: Option<&ErrorCode>) -> bool {
    last_error == Some(&Failure::LeaseExpired.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_transitions() {
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
    fn a_lease_is_given_back_until_the_limit() {
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
    fn only_a_job_after_an_expired_lease_starts_as_a_suspect() {
        assert!(!is_suspect_after(None));
        for failure in Failure::ALL {
            assert_eq!(is_suspect_after(Some(&failure.code())), failure == Failure::LeaseExpired);
        }
        assert!(is_suspect_after(Some(&ErrorCode::from_store("LEASE_EXPIRED".into()))));
    }
}
