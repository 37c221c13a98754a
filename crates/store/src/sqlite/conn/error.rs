//! Errors of SQLite calls. Tasks return a [`Fault`], and only this module converts faults to [`StoreError`]s.

use std::sync::Arc;

use posthaste_core::EventId;
use posthaste_core::ports::{Cause, StoreError};
use rusqlite::ErrorCode;

/// The result of a task.
pub(crate) type Answer<T> = Result<T, Fault>;

/// The reason why a task failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A row contains a value that Posthaste never writes.
    #[error("{0}")]
    Unreadable(String),
    /// A role executed a statement of another role.
    #[error("this statement does not belong to the role {0}")]
    ForeignStatement(&'static str),
    /// The work panicked; its changes were rolled back.
    #[error("the work panicked: {0}")]
    Panicked(String),
    /// The whole group was rolled back, including this task.
    #[error(transparent)]
    GroupLost(#[from] Arc<GroupLoss>),
    /// A statement that a test executed succeeded with this number of rows, and was rolled back.
    #[error("the probed statement succeeded with {0} rows")]
    Probed(usize),
    /// The event at `place` has the external id of a stored event with different content.
    #[error("the external id belongs to event {first}, which has different content")]
    Conflict { place: usize, first: EventId },
    /// The thread that runs the tasks has ended.
    #[error("the database is closed")]
    Closed,
}

/// The reason why a whole group was rolled back or could not be flushed.
#[derive(Debug, thiserror::Error)]
#[error("the group commit {cause}")]
pub(crate) struct GroupLoss {
    kind: Kind,
    cause: String,
}

/// The class of a fault, which determines the kind of [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Busy,
    Away,
    Unknown,
    Refused,
    Unreadable,
    Unusable,
}

impl GroupLoss {
    pub(crate) fn during_work(fault: &Fault) -> Arc<Self> {
        Arc::new(Self { kind: kind_of(fault), cause: rolled_back(fault) })
    }

    /// Creates the loss of a group whose transaction SQLite rolled back although no task reported an error.
    pub(crate) fn vanished() -> Arc<Self> {
        Arc::new(Self { kind: Kind::Away, cause: rolled_back(&"the transaction had been closed") })
    }

    /// Creates the loss of a group whose commit failed. A commit that failed while it was being written may be
    /// recovered after a crash, so its outcome is unknown. A commit that failed for lack of space is not recovered.
    pub(crate) fn during_commit(error: rusqlite::Error) -> Arc<Self> {
        let fault = Fault::Sqlite(error);
        let kind = match kind_of(&fault) {
            Kind::Away => Kind::Unknown,
            kind @ (Kind::Full
            | Kind::Busy
            | Kind::Unknown
            | Kind::Refused
            | Kind::Unreadable
            | Kind::Unusable) => kind,
        };
        Arc::new(Self { kind, cause: rolled_back(&fault) })
    }

    /// Creates the loss of a group that is committed but not flushed, and may be lost in a power failure.
    pub(crate) fn during_flush(error: &std::io::Error) -> Arc<Self> {
        Arc::new(Self { kind: Kind::Unknown, cause: format!("could not be flushed: {error}") })
    }
}

fn rolled_back(why: &dyn std::fmt::Display) -> String {
    format!("was rolled back: {why}")
}

impl Fault {
    /// Returns whether SQLite may have rolled back more than the failed statement. In that case the whole group counts
    /// as lost, even if the transaction is still open.
    pub(crate) fn is_fatal_for_group(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::OutOfMemory
                        | ErrorCode::DatabaseCorrupt
                        | ErrorCode::NotADatabase
                )
            ),
            Self::GroupLost(_) => true,
            Self::Unreadable(_)
            | Self::ForeignStatement(_)
            | Self::Panicked(_)
            | Self::Probed(_)
            | Self::Conflict { .. }
            | Self::Closed => false,
        }
    }

    /// Returns whether a schema constraint refused a row: a CHECK, a unique index or a trigger.
    pub(crate) fn is_constraint(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation),
            Self::Unreadable(_)
            | Self::ForeignStatement(_)
            | Self::Panicked(_)
            | Self::GroupLost(_)
            | Self::Probed(_)
            | Self::Conflict { .. }
            | Self::Closed => false,
        }
    }

    /// Converts the fault to the error that the caller gets.
    pub(crate) fn during(self, doing: &'static str) -> StoreError {
        let kind = kind_of(&self);
        let source: Cause = match self {
            Self::Unreadable(reason) => return StoreError::Unreadable { doing, reason },
            Self::Sqlite(error) => error.into(),
            Self::GroupLost(loss) => loss.into(),
            other @ (Self::ForeignStatement(_)
            | Self::Panicked(_)
            | Self::Probed(_)
            | Self::Conflict { .. }
            | Self::Closed) => other.into(),
        };
        match kind {
            Kind::Full => StoreError::Full { doing, source },
            Kind::Busy => StoreError::Busy { doing, source },
            Kind::Away => StoreError::Unavailable { doing, source },
            Kind::Unknown => StoreError::OutcomeUnknown { doing, source },
            Kind::Refused => StoreError::Refused { doing, source },
            Kind::Unreadable => StoreError::Unreadable { doing, reason: source.to_string() },
            Kind::Unusable => StoreError::Unusable {
                what: format!("the database file became unusable while {doing}: {source}"),
            },
        }
    }
}

fn kind_of(fault: &Fault) -> Kind {
    match fault {
        Fault::Sqlite(error) => kind_of_error(error),
        Fault::Unreadable(_) => Kind::Unreadable,
        Fault::ForeignStatement(_) | Fault::Panicked(_) | Fault::Probed(_) | Fault::Conflict { .. } => {
            Kind::Refused
        }
        Fault::GroupLost(loss) => loss.kind,
        Fault::Closed => Kind::Away,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these enums are rusqlite's and grow")]
fn kind_of_error(error: &rusqlite::Error) -> Kind {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => Kind::Full,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Kind::Busy
            }
            ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::CannotOpen
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted => Kind::Away,
            ErrorCode::ReadOnly
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::PermissionDenied => Kind::Unusable,
            _ => Kind::Refused,
        },
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => Kind::Unreadable,
        _ => Kind::Refused,
    }
}
