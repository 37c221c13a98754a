//! Classifies errors of the driver and the pool as [`Fault`]s.

use crate::postgres::conn::failure::ConnectError;
use crate::postgres::conn::monitor::ConnectFailure;
use crate::postgres::conn::pooling::{LOST_STATEMENT, is_lost_statement};
use crate::remote::{Fault, Phase};
use deadpool::managed::{PoolError, TimeoutType};
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
    if is_lost_statement(&error) {
        // Only a connection pooler loses statements that this connection prepared.
        return Fault::Away(format!("{}: {LOST_STATEMENT}", db.message()).into());
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
    *db.code() == SqlState::FEATURE_NOT_SUPPORTED && db.message().starts_with("cached plan")
}

/// Classifies an error of a statement that had no effect.
fn by_code(error: Error) -> Fault {
    let code = error.code().map_or("", SqlState::code).to_owned();
    // Another transaction has taken the uid since this one looked it up. The repeated call finds it.
    let is_race = error.as_db_error().and_then(DbError::constraint) == Some("uniq_subscription_uid");
    let cause: Cause = error.into();
    match code.as_str() {
        "40P01" | "40001" => Fault::Clash(cause),
        "23505" if is_race => Fault::Clash(cause),
        "55P03" => Fault::Locked(cause),
        // The statement was cancelled, or the server is out of memory or connections. A later call may succeed.
        "57014" | "53200" | "53300" => Fault::TimedOut(cause),
        "53100" => Fault::Full(cause),
        "25006" => Fault::ReadOnly(cause),
        // A constraint violation (23xxx, or PH001 raised by a trigger), a missing privilege (42501) or a value that no
        // column accepts.
        _ => Fault::Refused(cause),
    }
}

/// Classifies an error of the pool. No statement has been sent yet.
pub(crate) fn classify_pool(error: PoolError<ConnectError>) -> Fault {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            Fault::TimedOut("every connection of this role is in use".into())
        }
        PoolError::Backend(error) => connecting(error),
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle)
        | PoolError::PostCreateHook(_)
        | PoolError::Closed
        | PoolError::NoRuntimeSpecified => Fault::Away(error.to_string().into()),
    }
}

/// Classifies an error that occurred while connecting or setting the role.
pub(crate) fn connecting(error: ConnectError) -> Fault {
    if error.is_permanent() {
        let is_login = error.reason() == ConnectFailure::Authentication;
        let what = if is_login { "PostgreSQL refused the login" } else { "PostgreSQL cannot be used" };
        return Fault::Unusable(format!("{what}: {error}"));
    }
    match error.code().map(SqlState::code) {
        Some("22023") => Fault::Unusable(format!(
            "{error}: run `posthaste migrate` first, which creates it, with the same POSTHASTE_ROLE_PREFIX"
        )),
        Some("42501") => {
            Fault::Unusable(format!("this login may not use its role: {error}; grant the role to the login"))
        }
        Some("53300") => Fault::TimedOut(error.into()),
        // The password file or command would only fail again.
        Some(_) | None if error.has_timed_out() || error.reason() == ConnectFailure::Password => {
            Fault::TimedOut(error.into())
        }
        Some(_) | None => Fault::Away(error.into()),
    }
}
