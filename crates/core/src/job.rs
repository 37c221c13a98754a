//! Jobs, each of which is one attempt of a delivery: their states, request timeouts and expired leases. The
//! orchestrator creates jobs, workers execute them and the cleaner resets them. [`crate::saga`] decides the
//! effect of a result on the delivery.

use crate::broker::UNKNOWN;
use crate::duration;
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

    /// Returns whether a job with this status may be updated to status `to`. If both are equal, only other
    /// columns change.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Pending => matches!(to, Self::Pending | Self::Leased),
            Self::Leased => true,
            Self::Completed | Self::Failed => false,
        }
    }
}

/// The outcome of a finished job, as stored in its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    Completed,
    Failed { error_code: ErrorCode, retry_after: Option<Duration> },
}

impl JobOutcome {
    /// Creates the outcome from the columns of a job, or returns `None` if the job is not finished. A failed
    /// job without an error code, which Posthaste never writes, has the error code `UNKNOWN`.
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

/// The id and the outcome of a finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    pub job_id: JobId,
    pub outcome: JobOutcome,
}

/// The new state of a job whose lease has expired. The job is reset until the maximum number of resets is
/// reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiredLease {
    /// The job is reset. A `suspect` may have crashed its worker. A process runs one suspect at a time, so that
    /// a job that crashes its worker does not use up the resets of other suspects.
    GiveBack {
        lease_resets: u32,
        suspect: bool,
    },
    Fail {
        lease_resets: u32,
    },
}

/// The number of resets after which a job is suspect. A single reset does not make a job suspect, so that all
/// jobs run concurrently after an ordinary restart. If the maximum number of resets is 1, a job is suspect
/// after the first reset, because the next reset would fail it.
const SUSPECT_RESETS: u32 = 2;

/// Returns whether a job with an expired lease is reset or fails. `lease_resets` is the number of previous
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

/// Returns whether the next job of a saga is suspect, because the previous job failed after too many lease
/// resets.
pub fn is_suspect_after(last_error: Option<&ErrorCode>) -> bool {
    last_error == Some(&Failure::LeaseExpired.code())
}

/// The time reserved for reporting the outcome, between the timeout of a request and the end of its lease.
pub const REPORT_TIME: Duration = Duration::from_secs(5);
/// The minimum timeout of a subscription. A TLS handshake over a slow network takes most of this time.
pub const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The maximum timeout of a request, regardless of settings.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// The server's default request timeout, and the lease duration, which limits the timeouts of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimeouts {
    pub default: Duration,
    pub lease: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "timeout must be a duration from {} to {} (5s less than POSTHASTE_LEASE, at most 1h), such as 30s",
    duration::format(TIMEOUT_MIN),
    duration::format(*max)
)]
pub struct TimeoutError {
    max: Duration,
}

impl RequestTimeouts {
    /// Returns the longest timeout that the lease allows. A longer one is capped.
    pub fn max(&self) -> Duration {
        self.lease.saturating_sub(REPORT_TIME).min(TIMEOUT_MAX)
    }

    /// Parses the timeout of a subscription and checks its range.
    pub fn parse(&self, text: &str) -> Result<Duration, TimeoutError> {
        let timeout = duration::parse(text).filter(|timeout| (TIMEOUT_MIN..=self.max()).contains(timeout));
        timeout.ok_or(TimeoutError { max: self.max() })
    }

    /// Returns the timeout for a request, given the timeout of the subscription. It is capped if the lease
    /// duration was shortened after the subscription was stored.
    pub fn of(&self, subscription: Option<Duration>) -> Duration {
        subscription.map_or(self.default, |own| own.min(self.max()))
    }
}

/// Returns a duration in whole milliseconds, as it is stored.
pub fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
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

    const TIMEOUTS: RequestTimeouts =
        RequestTimeouts { default: Duration::from_secs(15), lease: Duration::from_secs(60) };

    #[test]
    fn timeouts_are_limited_by_the_lease() {
        for (text, s) in [("1s", Some(1)), ("55s", Some(55)), ("56s", None), ("999ms", None), ("10", None)] {
            assert_eq!(TIMEOUTS.parse(text).ok(), s.map(Duration::from_secs), "{text}");
        }
        let error = TIMEOUTS.parse("2m").expect_err("too long").to_string();
        assert_eq!(
            error,
            "timeout must be a duration from 1s to 55s (5s less than POSTHASTE_LEASE, at most 1h), such as 30s"
        );
    }

    #[test]
    fn a_shorter_lease_caps_a_stored_timeout() {
        let stored = Some(Duration::from_secs(50));
        assert_eq!(TIMEOUTS.of(stored), Duration::from_secs(50));
        assert_eq!(TIMEOUTS.of(None), Duration::from_secs(15));
        let shorter = RequestTimeouts { lease: Duration::from_secs(30), ..TIMEOUTS };
        assert_eq!(shorter.of(stored), Duration::from_secs(25));
        let day = RequestTimeouts { lease: Duration::from_secs(86_400), ..TIMEOUTS };
        assert_eq!((day.parse("1h").ok(), day.parse("61m").ok()), (Some(TIMEOUT_MAX), None));
    }
}
