//! The grace period in which no claims of other processes are taken back. After an outage of the store, it
//! gives delayed reports time to be written first.

use crate::clock::is_due;
use posthaste_core::Timestamp;
use std::time::Duration;

/// The length of the grace period after an outage. It is longer than the 2 s between retries of a report
/// while the store is unavailable.
pub(crate) const AFTER_OUTAGE: Duration = Duration::from_secs(5);
/// The longest grace period that a caller may start.
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

    /// Returns whether the store was unavailable. The caller must then check with an empty request whether it
    /// is available again.
    pub(crate) fn is_outage(&self) -> bool {
        *self == Self::Outage
    }

    pub(crate) fn start(&mut self, length: Duration, now: Timestamp) {
        *self = Self::Until(now.after(length.min(GRACE_MAX)));
    }

    /// Returns when the grace period ends, or `None` if there is none at `now`.
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
