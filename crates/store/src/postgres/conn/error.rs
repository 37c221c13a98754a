//! Classifies errors of the driver and the pool as [`Fault`]s.

use crate::remote::{Fault, Phase};
use deadpool_postgres::{HookError, PoolError, TimeoutType};
use posthaste_core::ports::Cause;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Classifies an error that a statement returned.
pub(crate) fn classify(error: Error, phase: Phase) -> Fault {
    let Some(db) = error.as_db_error() else {
        // Not an error from the server: either the connection broke, or a parameter could not be serialized and the
        // message was never sent.
        return if was_not_sent(&error) { Fault::Refused(error.into()) } else { broken(error, phase) };
    };
    let ends_connection = match db.parsed_severity() {
        Some(Severity::Fatal | Severity::Panic) => true,
        Some(
            Severity::Error
            | Severity::Warning
            | Severity::Notice
            | Severity::Debug
            | Severity::Info
            | Severity::Log,
        )
        | None => false,
    };
    if ends_connection || is_connection_code(db.code()) {
        return broken(error, phase);
    }
    if is_stale_plan(db) {
        // A migration changed a table that a prepared statement uses. A new connection prepares the statement again.
        return Fault::Away(error.into());
    }
    by_code(error)
}

fn broken(error: Error, phase: Phase) -> Fault {
    match phase {
        Phase::BeforeCommit => Fault::Away(error.into()),
        Phase::MayBeDone => Fault::Lost(error.into()),
    }
}

/// Returns whether the message could not be serialized. Compares the error text, because the driver does not expose the
/// kind of an error.
fn was_not_sent(error: &Error) -> bool {
    let message = error.to_string();
    message.starts_with("error serializing parameter") || message.starts_with("error encoding message")
}

fn is_connection_code(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
}

fn is_stale_plan(db: &DbError) -> bool {
    *db.code() == SqlState::INVALID_SQL_STATEMENT_NAME
        || (*db.code() == SqlState::FEATURE_NOT_SUPPORTED && db.message().starts_with("cached plan"))
}

/// Classifies an error of a statement that had no effect and left the connection usable.
fn by_code(error: Error) -> Fault {
    let code = error.code().map_or("", SqlState::code).to_owned();
    let cause: Cause = error.into();
    match code.as_str() {
        "40P01" | "40001" => Fault::Clash(cause),
        "55P03" => Fault::Locked(cause),
        // The statement was cancelled, or the server is out of memory or connections. A later call may succeed.
        "57014" | "53200" | "53300" => Fault::TimedOut(cause),
        "53100" => Fault::Full(cause),
        // A constraint violation (23xxx, or PH001 raised by a trigger), a missing privilege (42501) or a value that no
        // column accepts.
        _ => Fault::Refused(cause),
    }
}

/// Classifies an error of the pool. No statement has been sent yet.
pub(crate) fn classify_pool(error: PoolError) -> Fault {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            Fault::TimedOut("every connection of this role is in use".into())
        }
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            Fault::TimedOut("the server did not respond in time".into())
        }
        PoolError::Backend(error) => connecting(error),
        PoolError::PostCreateHook(HookError::Backend(error)) => connecting(error),
        PoolError::PostCreateHook(HookError::Message(text)) => Fault::Unusable(text.into_owned()),
        PoolError::Closed | PoolError::NoRuntimeSpecified => Fault::Away(error.into()),
    }
}

/// Classifies an error that occurred while connecting or setting the role.
pub(crate) fn connecting(error: Error) -> Fault {
    let Some(db) = error.as_db_error() else {
        return Fault::Away(error.into());
    };
    let code = db.code().code();
    if code.starts_with("28") || code == "3D000" {
        return Fault::Unusable(format!("PostgreSQL refused the login: {}", db.message()));
    }
    if code == "22023" {
        let message = db.message();
        return Fault::Unusable(format!("{message}: run `posthaste migrate` first, which creates it"));
    }
    if code == "42501" {
        return Fault::Unusable(format!(
            "this login may not use its role: {}; grant the role to the login",
            db.message()
        ));
    }
    if code == "53300" { Fault::TimedOut(error.into()) } else { Fault::Away(error.into()) }
}
