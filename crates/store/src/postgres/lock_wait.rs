//! Observes on a second connection what a statement of a migration waits for, so that the error can name the sessions
//! that hold the lock.

use crate::postgres::conn::connect::Connector;
use futures_util::future::{Either, join, select};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio_postgres::{Client, Error, Row};

/// Time after which a statement is observed. Most statements end earlier and need no second connection.
const OBSERVE_AFTER: Duration = Duration::from_millis(500);
/// Interval between two observations. An attempt to acquire a lock takes many times as long.
const OBSERVE_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of sessions in the error.
const SESSIONS_MAX: i64 = 5;

const LOCK_WAIT: &str = include_str!("sql/migrate/lock_wait.sql");

/// The login with which the second connection is opened if it is needed.
pub(super) struct LockObserver {
    pub(super) connector: Connector,
}

impl LockObserver {
    /// Runs `work` on the connection `client`, and returns its result with the last lock that it waited for.
    pub(super) async fn observe<T>(
        &self,
        client: &Client,
        work: impl Future<Output = T>,
    ) -> (T, Option<LockWait>) {
        let last = Mutex::new(None);
        let Ok(pid) = backend_pid(client).await else {
            return (work.await, None);
        };
        let done = match select(pin!(work), pin!(self.watch(pid, &last))).await {
            Either::Left((done, _)) => done,
            // The observation has failed, not the migration.
            Either::Right(((), work)) => work.await,
        };
        (done, last.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores the lock that the backend `pid` waits for, again and again, until an error occurs. Without a second
    /// connection, the error of the migration names no sessions.
    async fn watch(&self, pid: i32, last: &Mutex<Option<LockWait>>) {
        tokio::time::sleep(OBSERVE_AFTER).await;
        let Ok((observer, connection)) = self.connector.connect(None).await else { return };
        let observing = async {
            while let Ok(seen) = lock_wait(&observer, pid).await {
                if seen.is_some() {
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = seen;
                }
                tokio::time::sleep(OBSERVE_PAUSE).await;
            }
        };
        let _ = join(observing, connection).await;
    }
}

async fn backend_pid(client: &Client) -> Result<i32, Error> {
    client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)
}

async fn lock_wait(observer: &Client, pid: i32) -> Result<Option<LockWait>, Error> {
    let rows = observer.query(LOCK_WAIT, &[&pid, &SESSIONS_MAX]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let table = first.try_get(0)?;
    Ok(Some(LockWait { table, sessions: rows.iter().map(session).collect::<Result<_, Error>>()? }))
}

fn session(row: &Row) -> Result<Session, Error> {
    Ok(Session {
        pid: row.try_get(1)?,
        user: row.try_get(2)?,
        program: row.try_get(3)?,
        state: row.try_get(4)?,
        transaction_s: row.try_get(5)?,
    })
}

/// What a statement waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockWait {
    /// The table, or `None` if the statement waited for a transaction to end.
    table: Option<String>,
    /// The sessions that hold the lock, or that wait for it in front of the statement. Never empty.
    sessions: Vec<Session>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    pid: i32,
    user: Option<String>,
    program: Option<String>,
    /// The state, or `None` if this login may not see it.
    state: Option<String>,
    /// The age of the transaction in seconds, or `None` if this login may not see it.
    transaction_s: Option<i64>,
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(f, "the table {table} is locked by")?,
            None => f.write_str("it waited for the end of")?,
        }
        for (place, session) in self.sessions.iter().enumerate() {
            write!(f, "{} {session}", if place == 0 { "" } else { "," })?;
        }
        let pids: Vec<String> = self.sessions.iter().map(|session| session.pid.to_string()).collect();
        write!(
            f,
            "; wait until these transactions have ended, or end them with \
             SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{}]) pid",
            pids.join(", ")
        )
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)?;
        let age = self.transaction_s.map(|seconds| format!("transaction open for {seconds} s"));
        let user = self.user.as_ref().map(|user| format!("user {user}"));
        let known: Vec<String> =
            [self.program.clone(), user, self.state.clone(), age].into_iter().flatten().collect();
        if known.is_empty() { Ok(()) } else { write!(f, " ({})", known.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_described_as_far_as_they_are_visible() {
        let whole = Session {
            pid: 7,
            user: Some("ann".to_owned()),
            program: Some("psql".to_owned()),
            state: Some("idle in transaction".to_owned()),
            transaction_s: Some(340),
        };
        let hidden = Session { pid: 8, user: None, program: None, state: None, transaction_s: None };
        let wait = LockWait { table: Some("posthaste.events".to_owned()), sessions: vec![whole, hidden] };
        assert_eq!(
            wait.to_string(),
            "the table posthaste.events is locked by pid 7 (psql, user ann, idle in transaction, transaction open \
             for 340 s), pid 8; wait until these transactions have ended, or end them with SELECT \
             pg_terminate_backend(pid) FROM unnest(ARRAY[7, 8]) pid"
        );
    }
}
