//! What can go wrong below a port of SQLite, and what the port says of it. Pieces of work answer with
//! a [`Fault`]; the one place that turns faults into [`StoreError`]s is here.

use std::sync::Arc;

use posthaste_core::EventId;
use posthaste_core::ports::{Cause, StoreError};
use rusqlite::ErrorCode;

/// What a piece of work answers.
pub(crate) type Answer<T> = Result<T, Fault>;

/// Why a piece of work was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A row holds what Posthaste never wrote.
    #[error("{0}")]
    Unreadable(String),
    /// A statement of one role in the hands of another.
    #[error("this statement does not belong to the role {0}")]
    ForeignStatement(&'static str),
    /// The work panicked; its changes were undone.
    #[error("the work panicked: {0}")]
    Panicked(String),
    /// The whole group of pieces was rolled back, this one with it.
    #[error(transparent)]
    GroupLost(#[from] Arc<GroupLoss>),
    /// A test tried a statement, which worked and is undone; so many rows came of it.
    #[error("a statement that was only tried gave {0} rows")]
    Probed(usize),
    /// The event at this place has the external id of another event, and another content.
    #[error("the external id belongs to event {first}, which has another content")]
    Conflict { place: usize, first: EventId },
    /// The thread that does the work is gone.
    #[error("the database of this process has been closed")]
    Closed,
}

/// Why a whole group was rolled back, or cannot be relied upon.
#[derive(Debug, thiserror::Error)]
#[error("the group of transactions {cause}")]
pub(crate) struct GroupLoss {
    kind: Kind,
    cause: String,
}

/// What the caller may do about an error of SQLite.
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

    /// SQLite rolled back all of the transaction, and the piece that caused it did not say why.
    pub(crate) fn vanished() -> Arc<Self> {
        Arc::new(Self { kind: Kind::Away, cause: rolled_back(&"the transaction had been closed") })
    }

    /// A commit that failed while it was written may be found again by the recovery after a crash; one
    /// that found no room is not.
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

    /// It is committed, and may be lost if the machine loses power.
    pub(crate) fn during_flush(error: &std::io::Error) -> Arc<Self> {
        Arc::new(Self { kind: Kind::Unknown, cause: format!("could not be flushed: {error}") })
    }
}

fn rolled_back(why: &dyn std::fmt::Display) -> String {
    format!("was rolled back: {why}")
}

impl Fault {
    /// Whether SQLite may have rolled back more than the statement that failed. Then nothing of the
    /// group can be trusted to be there, even if the transaction looks open.
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

    /// Whether a rule of the schema refused a row: a CHECK, a key, a guard.
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

    /// What a port says of it.
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
                what: format!("the database file cannot be used any more while {doing}: {source}"),
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
