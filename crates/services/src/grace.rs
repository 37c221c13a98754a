//! The grace period in which claims of other processes are not reset. After an outage of the store, it allows
//! delayed reports to be written first.

use crate::clock::is_due;
use posthaste_core::Timestamp;
use std::time::Duration;

/// The length of the grace period after an outage. It is longer than the 2 s between retries of a report
/// while the store is unavailable.
pub(crate) const AFTER_OUTAGE: Duration = Duration::from_secs(5);
/// The maximum length of a grace period.
pub(crate) const GRACE_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Grace {
    #[default]
    None,
    /// The store failed and has not been available since.
    Outage,
    Until(Timestamp),
}

impl Grace {
    /// Records a failure of the store.
    pub(crate) const fn record_outage(&mut self) {
        *self = Self::Outage;
    }

    /// Returns whether the last call to the store failed. The caller must then send an empty request to check
    /// whether the store is available again.
    pub(crate) fn is_outage(&self) -> bool {
        *self == Self::Outage
    }

    pub(crate) fn start(&mut self, length: Duration, now: Timestamp) {
        *self = Self::Until(now.after(length.min(GRACE_MAX)));
    }

    /// Returns the end of the grace period, or `None` if no grace period is in effect at `now`.
    pub(crate) fn end(&mut self, now: Timestamp) -> Option<Timestamp> {
        match *self {
            Self::Until(until) if !is_due(until, GRACE_MAX, now) => Some(until),
            Self::Until(_) => {
                *self = Self::None;
                None
            }
            Self::None | Self::Outage => None,
        }
    }
}
