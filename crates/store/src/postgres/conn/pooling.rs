//! Detects a connection pooler that gives a client another server connection for each transaction, such as PgBouncer in
//! transaction mode, and refuses what does not work there. Called at startup and before a migration.

use crate::postgres::conn::connect::Connector;
use crate::postgres::conn::error::{classify, connecting};
use crate::remote::{Fault, Phase};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// Limits the detection. A pooler with a single server connection lets the second client wait.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The process id identifies the connection between pooler and server.
const SERVER_PROCESS: &str = "SELECT pg_catalog.pg_backend_pid()";

/// What a login needs from its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Prepared statements.
    Statements,
    /// Prepared statements, and a role that stays set.
    Role,
    /// Locks and settings that last longer than a transaction.
    Migration,
}

/// What was found out about the connections of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The client keeps its server connection.
    Kept,
    /// The client gets another server connection for the next transaction.
    Changed,
    /// The same, and a statement that the client prepared is lost.
    Lost,
}

/// Returns an error if the connections lead through a pooler that does not provide what the login needs. The second
/// client holds a transaction open, so that a pooler gives the first client another server connection. Neither client
/// changes a setting, because other clients may get these server connections afterwards.
pub(crate) async fn check(connector: &Connector, need: Need) -> Result<(), Fault> {
    let (first, first_transport) = connector.connect(None).await.map_err(connecting)?;
    let (second, second_transport) = connector.connect(None).await.map_err(connecting)?;
    let work = async move { observe(&first, &second).await };
    // The transports end when both clients are dropped. The limit includes them, because they wait for responses.
    let all = futures_util::future::join3(work, first_transport, second_transport);
    let found = match timeout(DETECTION_TIMEOUT, all).await.map(|(found, _, _)| found) {
        Err(_) => {
            let why =
                "the server did not respond in time; a connection pooler needs two free server connections";
            return Err(Fault::TimedOut(why.into()));
        }
        Ok(Err(error)) if is_lost_statement(&error) => Found::Lost,
        Ok(Err(error)) => return Err(classify(error, Phase::BeforeCommit)),
        Ok(Ok(found)) => found,
    };
    refusal(found, need).map_or(Ok(()), |reason| Err(Fault::Unusable(reason.to_owned())))
}

/// Returns why the connections cannot be used, or `None` if they can.
const fn refusal(found: Found, need: Need) -> Option<&'static str> {
    match (found, need) {
        (Found::Kept, _) | (Found::Changed, Need::Statements) => None,
        (Found::Lost, Need::Statements) => Some(NO_STATEMENTS),
        (Found::Changed | Found::Lost, Need::Role) => Some(NO_ROLE),
        (Found::Changed | Found::Lost, Need::Migration) => Some(NO_MIGRATION),
    }
}

/// The advice for a statement that fails later, because the pooler was not detected at startup.
pub(crate) const LOST_STATEMENT: &str =
    "a connection pooler in transaction mode must support prepared statements (docs/poolers.md)";
const NO_STATEMENTS: &str = "the URL of the PostgreSQL database leads through a connection pooler in transaction mode that \
     does not support prepared statements: use session mode, PgBouncer 1.21 or newer with max_prepared_statements \
     above 0, or connect to the server directly (docs/poolers.md)";
const NO_ROLE: &str = "the URL of the PostgreSQL database leads through a connection pooler in transaction mode, where a \
     common login cannot switch to the role of each component: set a login for each role, such as \
     POSTHASTE_DATABASE_URL_ROUTER, use session mode, or connect to the server directly (docs/poolers.md)";
const NO_MIGRATION: &str = "the URL of the PostgreSQL database leads through a connection pooler in transaction mode, which \
     does not support migrations: set POSTHASTE_DATABASE_URL_DIRECT to a URL that connects to the server directly \
     (docs/poolers.md)";

/// Compares the server connections of the first client with each other and with that of the second client.
async fn observe(first: &Client, second: &Client) -> Result<Found, Error> {
    let statement = first.prepare(SERVER_PROCESS).await?;
    let before: i32 = first.query_one(&statement, &[]).await?.try_get(0)?;
    second.batch_execute("BEGIN").await?;
    let other = second.simple_query(SERVER_PROCESS).await?;
    let after: i32 = first.query_one(&statement, &[]).await?.try_get(0)?;
    second.batch_execute("ROLLBACK").await?;
    let is_changed = after != before || process_in(&other) == Some(before);
    Ok(if is_changed { Found::Changed } else { Found::Kept })
}

fn process_in(messages: &[SimpleQueryMessage]) -> Option<i32> {
    messages.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        row.get(0)?.parse().ok()
    })
}

/// Returns whether a prepared statement is not known, or its name is in use, because another client prepared it on this
/// server connection.
pub(crate) fn is_lost_statement(error: &Error) -> bool {
    let codes = [&SqlState::INVALID_SQL_STATEMENT_NAME, &SqlState::DUPLICATE_PSTATEMENT];
    error.code().is_some_and(|code| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_depends_on_the_pooler_and_the_need() {
        for (found, of_statements, of_role, of_migration) in [
            (Found::Kept, None, None, None),
            (Found::Changed, None, Some(NO_ROLE), Some(NO_MIGRATION)),
            (Found::Lost, Some(NO_STATEMENTS), Some(NO_ROLE), Some(NO_MIGRATION)),
        ] {
            let refusals = [Need::Statements, Need::Role, Need::Migration].map(|need| refusal(found, need));
            assert_eq!(refusals, [of_statements, of_role, of_migration], "{found:?}");
        }
    }
}
