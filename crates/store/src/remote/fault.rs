//! Faults of calls over a connection, and whether a call may be repeated. Only this module converts these faults to
//! [`StoreError`]s.
//!
//! A fault depends on the error and on the phase of the call. If the connection breaks before a commit was requested,
//! nothing was done. If it breaks afterwards, the outcome is unknown, and only an idempotent call may be repeated.

use posthaste_core::ports::{Cause, StoreError};

/// The phase in which a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No commit had been requested.
    BeforeCommit,
    /// The server may have committed.
    MayBeDone,
}

#[derive(Debug)]
pub(crate) enum Fault {
    /// There was no connection, or it broke before the commit. Nothing was done.
    Away(Cause),
    /// The server has become read-only, for example a standby. Nothing was done.
    ReadOnly(Cause),
    /// No connection was available within the timeout, or the server lacks resources. Not repeated, because a retry
    /// would only wait again.
    TimedOut(Cause),
    /// The connection broke after the commit was requested.
    Lost(Cause),
    /// A deadlock or a serialization failure occurred. Nothing was done.
    Clash(Cause),
    /// The lock timeout expired. Nothing was done.
    Locked(Cause),
    Full(Cause),
    Refused(Cause),
    /// A row contains a value that Posthaste never writes.
    Unreadable(String),
    /// The database cannot be used until the operator changes something.
    Unusable(String),
}

impl Fault {
    /// Returns whether the store may repeat the call.
    pub(crate) const fn may_repeat(&self, idempotent: bool) -> bool {
        match self {
            Self::Away(_) | Self::ReadOnly(_) | Self::Clash(_) => true,
            Self::Lost(_) => idempotent,
            Self::TimedOut(_)
            | Self::Locked(_)
            | Self::Full(_)
            | Self::Refused(_)
            | Self::Unreadable(_)
            | Self::Unusable(_) => false,
        }
    }

    /// Converts the fault to the error that the caller gets. A lost call that is idempotent counts as not done.
    pub(crate) fn into_error(self, doing: &'static str, idempotent: bool) -> StoreError {
        match self {
            Self::Away(source) | Self::ReadOnly(source) | Self::TimedOut(source) => {
                StoreError::Unavailable { doing, source }
            }
            Self::Lost(source) if idempotent => StoreError::Unavailable { doing, source },
            Self::Lost(source) => StoreError::OutcomeUnknown { doing, source },
            Self::Clash(source) | Self::Locked(source) => StoreError::Busy { doing, source },
            Self::Full(source) => StoreError::Full { doing, source },
            Self::Refused(source) => StoreError::Refused { doing, source },
            Self::Unreadable(reason) => StoreError::Unreadable { doing, reason },
            Self::Unusable(what) => StoreError::Unusable { what },
        }
    }

    /// Returns whether the connection can still be used.
    pub(crate) const fn spares_connection(&self) -> bool {
        match self {
            Self::Clash(_) | Self::Locked(_) | Self::Full(_) | Self::Refused(_) | Self::Unreadable(_) => true,
            Self::Away(_) | Self::ReadOnly(_) | Self::TimedOut(_) | Self::Lost(_) | Self::Unusable(_) => {
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause() -> Cause {
        "it broke".into()
    }

    #[test]
    fn lost_call_is_unknown_unless_idempotent() {
        let doing = "testing";
        assert!(Fault::Lost(cause()).may_repeat(true));
        assert!(!Fault::Lost(cause()).may_repeat(false));
        assert!(matches!(Fault::Lost(cause()).into_error(doing, false), StoreError::OutcomeUnknown { .. }));
        assert!(matches!(Fault::Lost(cause()).into_error(doing, true), StoreError::Unavailable { .. }));
    }

    #[test]
    fn non_idempotent_calls_are_repeated_only_if_nothing_was_done() {
        assert!(Fault::Away(cause()).may_repeat(false));
        assert!(Fault::Clash(cause()).may_repeat(false));
        for fault in [Fault::Locked(cause()), Fault::Refused(cause()), Fault::TimedOut(cause())] {
            assert!(!fault.may_repeat(true), "{fault:?}");
        }
    }
}
